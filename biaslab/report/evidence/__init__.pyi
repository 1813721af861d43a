from .cards import CardPage as CardPage, show as show
from .labelling import LabelPage as LabelPage, label as label
from .trials import trials_of_store as trials_of_store
