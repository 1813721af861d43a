from .readers import read_judgements as read_judgements
from .recorded import ExportedJudge as ExportedJudge, RecordedJudge as RecordedJudge
