from .annotation import (
    Aspect as Aspect,
    Reward as Reward,
    Stars as Stars,
    aspects as aspects,
    find_aspect as find_aspect,
)
from .embedding import features as features
from .ensembles import (
    Evaluators as Evaluators,
    WeightedEvaluators as WeightedEvaluators,
    load_evaluators as load_evaluators,
)
from .evaluator import Evaluator as Evaluator, load_evaluator as load_evaluator
from .evaluator_judge import EvaluatorJudge as EvaluatorJudge
from .inheritance import bias_inheritance as bias_inheritance
from .labelling import annotate as annotate, examples as examples
from .policy import Policy as Policy, load_policy as load_policy
from .reinforce import reinforce as reinforce
from .rerank import evaluate as evaluate, rerank as rerank, tune_weights as tune_weights
from .reward_slopes import reward_slopes as reward_slopes
from .risk import MinimumRisk as MinimumRisk
from .sampling import collect_samples as collect_samples
from .settings import Settings as Settings
from .students import (
    learning_curve as learning_curve,
    rated_by as rated_by,
    ratings as ratings,
    scores_of as scores_of,
    students as students,
)
from .text_measures import (
    add_overshoot as add_overshoot,
    best_of_n as best_of_n,
    compare_texts as compare_texts,
    measure_texts as measure_texts,
    most_changed as most_changed,
    unigram_log_perplexity as unigram_log_perplexity,
)
from .training import cross_fit as cross_fit, train as train
