"""Measure again what the papers published, and write it beside the published figures into README.md.

python reproduce.py --data FOLDER [--quick] [--only SECTION ...] [--results results]

FOLDER has a manifest.csv (see `studies`). Every paper has a script of its own, which is run and whose tables become a
section of README.md; pictures go beside it. In full it is some three hours of one processor; ``--quick`` takes one
repetition and few masks and rounds (some ten minutes). Either goes on where it was interrupted: what the results folder
has already is not run again. ``--report`` runs nothing and rewrites the sections from the texts that the results folder
has.

Two experiments are not repeated as often as their scripts do by themselves: `ting2003` takes three cross-validations of
ten, and `fernandez2008` ten masks of twenty for its table and twenty of a hundred for its curves.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["STUDIES", "main", "replace_section"]

HERE = Path(__file__).resolve().parent

STUDIES = {
    "frank1998_regression": ("frank1998", ["--resume", "--parts", "regression"], [], ["--repetitions", "1"]),
    "frank1998": ("frank1998", ["--resume", "--parts", "classification", "spiral"], [], ["--repetitions", "1"]),
    "ting2003": ("ting2003", [], ["--repetitions", "3"], ["--quick"]),
    "ting2003_rules": ("ting2003_rules", [], [], ["--repetitions", "2"]),
    "vilalta2003": ("vilalta2003", ["--resume"], [], ["--repetitions", "1"]),
    "fernandez2008": (
        "fernandez2008",
        ["--resume"],
        ["--masks", "10", "--tree-masks", "2", "--repetitions", "20"],
        ["--datasets", "cloud", "--masks", "2", "--tree-masks", "1", "--repetitions", "3"],
    ),
}
"""Of each section the script, its options in any case, those of a full run and those of a quick one."""


def measure(name, data, results, quick):
    """Run the script of a paper and keep what it prints; a run that fails keeps nothing."""
    script, always, *either = STUDIES[name]
    command = [sys.executable, str(HERE / f"{script}.py"), "--data", str(Path(data).resolve())]
    command += ["--results", str(results.resolve() / name), *always, *either[quick]]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, text=True, check=True)
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}.txt").write_text(done.stdout, encoding="utf-8")


def replace_section(text, name, lines):
    r"""Put lines between the marks of a section.

    Examples
    --------
    >>> replace_section("a <!-- x --> old <!-- end x --> b", "x", ["new"])
    'a <!-- x -->\nnew\n<!-- end x --> b'
    """
    begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no section between {begin} and {end}")
    body = "\n".join([begin, *lines, end])
    return pattern.sub(lambda _: body, text)


def write_section(name, results, quick):
    """Write what was measured last into the section of a paper, with its pictures."""
    printed = (results / f"{name}.txt").read_text(encoding="utf-8")
    script, always, *either = STUDIES[name]
    given = " ".join([f"{script}.py", *(option for option in always if option != "--resume"), *either[quick]])
    kind = f"a quick run (`{given}`)" if quick else f"the full run (`{given}`)"
    shown = [line for line in printed.splitlines() if not line.startswith("drawn: ")]
    lines = [f"Measured by {kind}:", "", "```text", *"\n".join(shown).strip("\n").splitlines(), "```"]
    for picture in sorted((results / name).glob("*.png")):
        goal = HERE / "pictures" / f"{name}_{picture.name}"
        goal.parent.mkdir(exist_ok=True)
        shutil.copyfile(picture, goal)
        lines += ["", f"![{name}, {picture.stem}](pictures/{goal.name})"]
    readme = HERE / "README.md"
    readme.write_text(replace_section(readme.read_text(encoding="utf-8"), name, lines), encoding="utf-8")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder of datasets with a manifest.csv")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results go, to be resumed")
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES), metavar="SECTION")
    parser.add_argument("--quick", action="store_true", help="one repetition, few masks and rounds")
    parser.add_argument("--report", action="store_true", help="run nothing, write what the results folder has")
    options = parser.parse_args(arguments)
    if options.data is None and not options.report:
        parser.error("--data is needed, or --report")
    results = options.results / ("quick" if options.quick else "full")
    for name in options.only:
        if not options.report:
            print(f"{name} ...", file=sys.stderr, flush=True)
            measure(name, options.data, results, options.quick)
        elif not (results / f"{name}.txt").exists():
            print(f"{name}: nothing was measured yet", file=sys.stderr)
            continue
        write_section(name, results, options.quick)


if __name__ == "__main__":
    main()
