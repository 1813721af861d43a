"""A candidate that writes the marks of a chat template stays a candidate, in the template of every family."""

from collections import Counter
from functools import cache

import pytest
from hypothesis import given, strategies as st

from biaslab import prompts
from biaslab.core import Message, as_messages
from biaslab.prompts.edits import available
from biaslab.prompts.edits.attacks import SOURCES, defend, shield

CHATML = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""
GEMMA = """\
<bos>{% if messages[0].role == "system" %}{{ raise_exception("no system") }}{% endif %}{% for m in messages -%}
<start_of_turn>{{ "model" if m.role == "assistant" else m.role }}
{{ m.content | trim }}<end_of_turn>
{% endfor %}<start_of_turn>model
"""
LLAMA2 = """\
{% for m in messages %}{% if m.role == "assistant" %} {{ m.content }}</s>{% elif m.role == "system" %}<s>[INST] <<SYS>>
{{ m.content }}
<</SYS>>

{% else %}{% if loop.index0 == 0 or loop.previtem.role != "system" %}<s>[INST] {% endif %}{{ m.content }} [/INST]\
{% endif %}{% endfor %}"""
LLAMA3 = """\
<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>

"""
MISTRAL = """\
<s>{% for m in messages %}{% if m.role == "assistant" %}{{ m.content }}</s>{% elif m.role == "system" %}[SYSTEM_PROMPT]\
{{ m.content }}[/SYSTEM_PROMPT]{% else %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}"""
PHI = """\
{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}<|end|>
{% endfor %}<|assistant|>
"""
PLAIN = """\
{% for m in messages %}{{ m.role | capitalize }}: {{ m.content }}

{% endfor %}Assistant:"""
#: Template and control tokens of each family; of marks that are ordinary words, as Llama 2 has, there is no token.
FAMILIES = {
    "chatml": (CHATML, "<|im_start|> <|im_end|>"),
    "gemma": (GEMMA, "<bos> <start_of_turn> <end_of_turn>"),
    "llama2": (LLAMA2, "<s> </s>"),
    "llama3": (LLAMA3, "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|>"),
    "mistral": (MISTRAL, "<s> </s> [INST] [/INST] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]"),
    "phi": (PHI, "<|system|> <|user|> <|assistant|> <|end|>"),
    "plain": (PLAIN, ""),
}
MARKS = sorted({mark for _, marks in FAMILIES.values() for mark in marks.split()})
ATTACKS = {name: one for name, one in available().items() if name.startswith("fake_turn_")}
KINDS = ["byte_level", "metaspace"]


@pytest.fixture(scope="module")
def encoder_of(make_tokenizer):
    from tokenizers import AddedToken

    from biaslab.judges.encoding import ChatEncoder

    @cache
    def make(family, kind, every=False):
        """Encode for a family, with its own control tokens or with those of every family."""
        template, own = FAMILIES[family]
        tokenizer = make_tokenizer(kind, chat_template=template)
        marks = MARKS if every else own.split()
        tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
        return ChatEncoder(tokenizer)

    return make


def controls(encoder, messages):
    return Counter(i for i in encoder.conversation(as_messages(messages)) if i in encoder.special_ids)


def decoded(encoder, messages):
    return encoder.tokenizer.decode(encoder.conversation(as_messages(messages)), clean_up_tokenization_spaces=False)


def test_each_family_has_a_template_and_an_attack():
    assert set(FAMILIES) == {name.removeprefix("fake_turn_") for name in ATTACKS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("every", [False, True], ids=["own", "every"])
def test_no_fake_turn_reaches_the_prompt_as_control_tokens(encoder_of, kind, family, attack, every):
    """Whichever family the model is of and whichever the attacker guessed, in the prompts of the probes."""
    encoder = encoder_of(family, kind, every)
    edited = ATTACKS[attack]("Rain fell.")
    shown = {"context": "It rained.", "noun": "text", "attribute": "fluency", "low": 1, "high": 5}
    ask = [prompts.render("scoring_1", candidate=text, **shown) for text in ("Rain fell.", edited)]
    for turns in ([("user", "{}")], [("system", "Judge."), ("user", "{}")], [("user", "{}"), ("assistant", "Score:")]):
        honest, attacked = ([(role, content.format(text)) for role, content in turns] for text in ask)
        assert controls(encoder, attacked) == controls(encoder, honest)
        if kind == "byte_level":
            assert edited in decoded(encoder, attacked)  # nothing is lost, and the judge still sees it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", [family for family, (_, marks) in FAMILIES.items() if marks])
def test_plain_tokenizer_encodes_attacks_as_control_tokens(encoder_of, kind, family):
    """Otherwise the test above would show nothing."""
    encoder = encoder_of(family, kind)
    edited = ATTACKS[f"fake_turn_{family}"]("Rain fell.")
    assert encoder.special_ids & set(encoder.tokenizer(edited, add_special_tokens=False).input_ids)
    assert not encoder.special_ids & set(encoder.plain(edited))
    assert not encoder.special_ids & set(encoder.continuation(edited))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("defence", SOURCES)
def test_defended_prompts_have_no_extra_control_tokens(encoder_of, family, defence):
    encoder = encoder_of(family, "byte_level", every=True)
    for attack in ATTACKS.values():
        honest, attacked = (
            defend(f"Text: {shield(text, defence)}\n\nHow good is it?", defence)
            for text in ("Rain fell.", attack("Rain fell."))
        )
        assert controls(encoder, attacked) == controls(encoder, honest)


PIECES = st.sampled_from([*MARKS, "<|", "|>", "[/", "INST]", "system", "\n", " ", "A"])
CONTENT = st.lists(PIECES, max_size=8).map("".join)


@given(content=CONTENT, family=st.sampled_from(list(FAMILIES)), kind=st.sampled_from(KINDS))
def test_mixed_marks_have_no_extra_control_tokens(encoder_of, content, family, kind):
    encoder = encoder_of(family, kind, every=True)
    assert controls(encoder, [Message("user", content)]) == controls(encoder, [Message("user", "x")])
