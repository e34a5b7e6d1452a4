from __future__ import annotations

from pathlib import Path

import pytest

from tests.left_out import is_left_out, marks_of

QUICK = "not processes and not thorough"


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("pytestmark = pytest.mark.thorough\n", {"thorough"}),
        (
            'pytestmark = [\n    pytest.mark.one_server("why"),\n    pytest.mark.thorough,\n]\n',
            {"one_server", "thorough"},
        ),
        ("@pytest.mark.thorough\ndef test_one() -> None: ...\n", set()),
        ("x = 1\n", set()),
    ],
)
def test_the_marks_of_a_whole_file_are_read_from_its_text(text: str, marks: set[str]) -> None:
    assert marks_of(text) == marks


@pytest.mark.parametrize(
    ("expression", "left_out"),
    [(QUICK, True), ("not thorough", True), ("not processes", False), ("thorough", False), ("", False)],
)
def test_a_file_is_left_out_if_the_expression_excludes_its_mark(
    tmp_path: Path, expression: str, left_out: bool
) -> None:
    file = tmp_path / "test_long.py"
    file.write_text("import pytest\n\npytestmark = pytest.mark.thorough\n")
    assert is_left_out(file, expression) is left_out


def test_an_expression_that_is_not_understood_leaves_nothing_out(tmp_path: Path) -> None:
    file = tmp_path / "test_long.py"
    file.write_text("pytestmark = pytest.mark.thorough\n")
    assert not is_left_out(file, "not (thorough and processes)")
    assert not is_left_out(file, "not thorough or processes")
