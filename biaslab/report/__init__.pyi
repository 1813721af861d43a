from . import plots as plots
from .card import Card as Card, answer as answer, card as card
from .limits import Limit as Limit, check_limits as check_limits, check_runs as check_runs
from .methods import Checklist as Checklist, checklist as checklist, methods as methods
from .overview import overview as overview, replies as replies, verdict_table as verdict_table
from .page import page as page
from .tables import (
    to_csv as to_csv,
    to_html as to_html,
    to_latex as to_latex,
    to_macros as to_macros,
    to_markdown as to_markdown,
    write as write,
)
from .verdicts import findings as findings, verdicts as verdicts
from .wording import with_intervals as with_intervals
