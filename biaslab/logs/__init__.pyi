from .readers import Proposal as Proposal, propose as propose, read_judgements as read_judgements
from .recorded import ExportedJudge as ExportedJudge, RecordedJudge as RecordedJudge
