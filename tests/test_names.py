"""Names and sizes in the tree: one public class name, one meaning; short modules; short functions."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sooner"
MOST_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_FUNCTION = 60


def _modules() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")


def _modules_of_public_classes() -> dict[str, list[str]]:
    modules = defaultdict(list)
    for module, text in _modules():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(module)
    return modules


def _long_functions() -> Iterator[str]:
    for module, text in _modules():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                is_command = module in (f"cli/{node.name}.py", "cli/data.py")  # its options are its arguments
                if node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION and not is_command:
                    yield f"{module}: {node.name}"


def test_a_public_class_name_is_defined_in_one_module_only():
    shared = {name: modules for name, modules in _modules_of_public_classes().items() if len(modules) > 1}
    assert shared == {}


def test_no_module_has_more_than_400_lines():
    long = {module for module, text in _modules() if len(text.splitlines()) > MOST_LINES_OF_A_MODULE}
    assert long == set()


def test_no_function_but_the_commands_has_more_than_60_lines():
    assert set(_long_functions()) == set()
