from .agreement import (
    agreement as agreement,
    agreement_difference as agreement_difference,
    conditional_shares as conditional_shares,
    system_accuracy as system_accuracy,
)
from .encoder import TokenEmbedder as TokenEmbedder, load_encoder as load_encoder
from .reference import bert_scores as bert_scores, reference_scores as reference_scores
from .scorers import (
    SCORES as SCORES,
    GEval as GEval,
    GPTScore as GPTScore,
    PromptScoring as PromptScoring,
    Rating as Rating,
    Scorer as Scorer,
    StepWriting as StepWriting,
    scores as scores,
    written_steps as written_steps,
)
