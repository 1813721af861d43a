"""A model of the hub by its name: whether it is one, and the commit that pins it."""

from __future__ import annotations

import re

from biaslab.core.errors import InputError, ModelLoadError

#: Names of models that only servers have; no repository of the hub is called so, which needs an organisation.
_SERVED = re.compile(
    r"(gpt-(3\.5|[4-9])|gpt[4-9]|chatgpt-|o\d(-|$)|claude-|gemini-|grok-|deepseek-(chat|reasoner)|command-[ar]"
    r"|(open-)?mi[sx]tral-(large|medium|small|tiny)|qwen-(max|plus|turbo|flash)|sonar)",
    re.IGNORECASE,
)
_PATIENCE = 5.0  # seconds for the hub to say whether it has a model


def refuse_served(model: str) -> None:
    """Raise `InputError` for the name of a model that only a server has.

    Examples
    --------
    >>> refuse_served("gpt2")
    >>> refuse_served("gpt-4o")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    biaslab.core.errors.InputError: judge is 'gpt-4o', allowed: ...; did you mean api:gpt-4o?
    """
    if _SERVED.match(model):
        raise InputError("judge", model, "the name of a model that runs here", f"did you mean api:{model}?")


def hub_commit(model: str, file: str, revision: str | None) -> str:
    """Return the commit that pins a model of the hub, in the cache or, asked for once, on the hub.

    Raises
    ------
    InputError
        If the name is that of a model that only a server has.
    ModelLoadError
        If it is not there, or the hub is out of reach.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from transformers.utils.hub import cached_file, extract_commit_hash

    refuse_served(model)
    pinned = revision or "main"
    try:
        if not isinstance(try_to_load_from_cache(model, file, revision=pinned), str):
            url = hf_hub_url(model, file, revision=pinned)
            get_hf_file_metadata(url, timeout=_PATIENCE)  # asks once, where a download asks six times
        found = cached_file(model, file, revision=pinned)
    except Exception as error:  # whatever the hub's client and its transport raise
        reason = f"{str(error).strip() or type(error).__name__}".splitlines()[0]
        raise ModelLoadError(
            f"the model {model!r} is neither a local folder or file nor found on the hub: {reason}; check the name, "
            f"the network or the local cache, or write api:{model} for a model behind a server"
        ) from error
    return extract_commit_hash(found, None) or pinned
