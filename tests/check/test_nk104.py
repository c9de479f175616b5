"""NK104, NK106, NK114, NK311 and NK313: names below `nki`."""

import pytest

from nki_agent.chip.spec import Target
from nki_agent.nki.current.modules import MODULES
from nki_agent.nki.current.names import NOT_MODELLED
from tests.check.checked import HEAD, check_body, check_file, codes


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        ("nisa.activaton", "did you mean `nisa.activation`"),
        ("nl.tensor_copy", "did you mean `nisa.tensor_copy`?"),
        ("nisa.exp", "did you mean `nl.exp`?"),
        ("nki.language.expp", "did you mean `nl.exp`?"),
        ("nisa.reduce_cmd.rest", "did you mean `nisa.reduce_cmd.reset`"),
        ("nisa.engine.vectr", "did you mean `nisa.engine.vector`?"),
        ("nisa.constants.engine.vectr", "did you mean `nisa.engine.vector`?"),
        ("nl.tile_size.pmx", "did you mean `nl.tile_size.pmax`"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest_ones(use: str, hint: str) -> None:
    (finding,) = check_body(f"t = {use}")
    assert finding.code == "NK104"
    assert finding.hint.startswith(hint)


def test_unknown_name_in_an_import_is_refused() -> None:
    assert codes(check_file("from nki.language import expo\n" + HEAD + "    return x\n")) == [
        "NK104"
    ]


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("nl.arange(128)", "slices"),
        ("nl.mgrid[0:128, 0:512]", "slices"),
        ("nl.par_dim(128)", "first"),
        ("nki.benchmark", "profile"),
        ("nisa.tensor_copy_dynamic_src", "scalar_offset"),
    ],
)
def test_name_of_the_older_dialect_is_refused_with_its_successor(use: str, part: str) -> None:
    (finding,) = check_body(f"t = {use}")
    assert finding.code == "NK106"
    assert part in finding.hint


def test_name_that_is_not_modelled_yet_says_so() -> None:
    for module, names in NOT_MODELLED.items():
        for name in names:
            assert codes(check_body(f"t = {module}.{name}")) == ["NK114"]


@pytest.mark.parametrize("use", ["nl.divide(x, x)", "nl.mod", "nl.fmod(x, x)"])
def test_function_that_fails_on_hardware_is_refused(use: str) -> None:
    assert codes(check_body(f"t = {use}")) == ["NK313"]


def test_instruction_of_a_newer_chip_is_refused_on_an_older_one() -> None:
    body = "f = nisa.range_select"
    assert codes(check_body(body, target=Target.TRN1)) == ["NK311"]
    assert check_body(body, target=Target.TRN2) == []


def test_every_public_name_is_known() -> None:
    short = {"nki": "nki", "nki.isa": "nisa", "nki.language": "nl", "nki.typing": "nki.typing"}
    uses = [f"{short[m]}.{n}" for m, names in MODULES.items() if m in short for n in sorted(names)]
    lines = [f"t{i} = {use}" for i, use in enumerate(uses)]
    for line in lines:
        assert {f.code for f in check_body(line, target=Target.TRN3)} <= {"NK313", "NK118"}, line


def test_name_that_the_function_binds_itself_is_not_a_module() -> None:
    source = HEAD.replace("kernel(x)", "kernel(x, nl)") + "    return nl.whatever\n"
    assert check_file(source) == []


@pytest.mark.parametrize(
    "head",
    [
        "import nki\nnl = nki.language\n",
        "import nki\nimport nki.language as lang\nnl = lang\n",
        "from nki import language as nl, jit\nimport nki\n",
    ],
)
def test_module_is_known_by_any_name(head: str) -> None:
    source = head + "@nki.jit\ndef kernel(x):\n    return nl.expp(x)\n"
    assert codes(check_file(source)) == ["NK104"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["object", "bool8", "float_", "str"])
def test_name_that_numpy_dropped_gives_no_warning(name: str) -> None:
    assert codes(check_body(f"u = nl.{name}(x)")) == ["NK104"]
