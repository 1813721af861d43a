from .cards import CardPage as CardPage, show as show
from .trials import trials_of_store as trials_of_store
