from .card_figure import (
    bias_matrix as bias_matrix,
    forest as forest,
    matrix as matrix,
    specification_curve as specification_curve,
)
from .drawing import Hover as Hover, against as against, hover as hover, intervals as intervals
from .figure import (
    DrawnFigures as DrawnFigures,
    compared as compared,
    draw as draw,
    identity as identity,
    inherited as inherited,
    leaderboard as leaderboard,
    recovery as recovery,
    save as save,
    standard as standard,
)
from .figure_words import headline as headline
from .scores import bland_altman as bland_altman, confusion as confusion, heaps as heaps, spread as spread
from .style import (
    MARKERS as MARKERS,
    PALETTE as PALETTE,
    STYLE as STYLE,
    note as note,
    panels as panels,
    share_legend as share_legend,
    styled as styled,
)
