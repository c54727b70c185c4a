"""What the pages tell people to type is there: verbs, options, keys of the
config, files of the repository. GIMBAL_BIN_DIR has the programs."""

import functools
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["GIMBAL_BIN_DIR"])
PAGES = [
    page
    for folder in ("deploy", "dashboards", "coordinator", "worker", "tests")
    for page in sorted((SOURCE / folder).rglob("*.md"))
] + [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md"]

# Not the user of `-o gimbal`.
PROGRAM = re.compile(r"(?<![\w./-])(?<!-o )(gimbal(?:-worker|-coordinator)?)((?: [^|;&>`]*)?)")
# Tops of the repository whose files the pages name.
FILE = re.compile(
    r"(?<![\w./<-])((?:deploy|tests|common|dashboards|coordinator|worker|proto)"
    r"/[\w./-]*\w)"
)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
KEY = re.compile(
    r"^(?:run|data|model|batch|pipeline|optimizer|staleness|precision|checkpoint"
    r"|eval|guards|cluster)\.(?!yaml$)[a-z_0-9.]+$"
)
# Stand for names to be chosen.
PLACEHOLDER = re.compile(r"\b(X|PATH|STEM)(_|\b)")


@functools.cache
def help_of(*command):
    done = subprocess.run(
        [BIN / command[0], *command[1:], "--help"], text=True, capture_output=True
    )
    return done.stdout if done.returncode == 0 else ""


def subcommands(text):
    _, found, rest = text.partition("Subcommands:\n")
    return set(re.findall(r"^  (\w+)", rest, re.M)) if found else set()


def code_of(text):
    """Commands of code blocks, and what stands between backticks."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```", text, re.M | re.S)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            yield line.split("  #")[0]
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    for span in re.findall(r"`([^`]+)`", prose):
        yield " ".join(span.split())


def exists(path):
    """Programs are named without the ending of their source."""
    return (SOURCE / path).exists() or any(SOURCE.glob(path + ".*"))


def wrong_command(program, arguments):
    """None, or what is not there."""
    words, command = arguments.split(), [program]
    while words and words[0] in subcommands(help_of(*command)):
        command.append(words.pop(0))
    if program == "gimbal" and len(command) == 1 and words:
        if re.fullmatch(r"[a-z]+", words[0]):
            return f"gimbal has no verb {words[0]}"
    for word in words:
        option = re.match(r"\[?(--[a-z][a-z-]*)", word)
        if option and not re.search(
            rf"(?<![\w-]){option[1]}(?![\w-])", help_of(*command)
        ):
            return f"{' '.join(command)} has no {option[1]}"
    return None


class PagesTest(unittest.TestCase):
    def each(self, find):
        wrong = [
            f"{page.relative_to(SOURCE)}: {what}"
            for page in PAGES
            for what in find(page.read_text(), page)
        ]
        if wrong:
            self.fail("\n".join(wrong))

    def test_commands_are_there(self):
        def find(text, _):
            for code in code_of(text):
                # A release, an image or an object may have the name.
                if re.match(r"(helm|kubectl|podman|docker) (?!exec|run)", code):
                    continue
                for program, arguments in PROGRAM.findall(code):
                    wrong = wrong_command(program, arguments)
                    if wrong:
                        yield f"{wrong}: {code.strip()}"

        self.each(find)

    def test_programs_of_one_build_say_one_version(self):
        names = ("gimbal", "gimbal-coordinator", "gimbal-worker")
        said = [
            subprocess.run([BIN / name, "--version"], text=True, capture_output=True)
            for name in names
        ]
        self.assertEqual([done.returncode for done in said], [0, 0, 0])
        named = [done.stdout.split() for done in said]
        self.assertEqual([words[0] for words in named], list(names))
        self.assertEqual(len({words[1] for words in named}), 1, named)

    def test_keys_are_there(self):
        keys = subprocess.run(
            [BIN / "gimbal", "config"], text=True, capture_output=True, check=True
        ).stdout
        known = set(re.findall(r"^([a-z_0-9.]+) ", keys, re.M))

        def find(text, _):
            for code in code_of(text):
                if not KEY.match(code):
                    continue
                section = any(key.startswith(code + ".") for key in known)
                if code not in known and not section:
                    yield f"no key {code}"

        self.each(find)

    def test_files_are_there(self):
        def find(text, page):
            for link in LINK.findall(text):
                if not (page.parent / link).exists():
                    yield f"no {link}"
            for path in FILE.findall(text):
                if not exists(path) and not PLACEHOLDER.search(path):
                    yield f"no {path}"

        self.each(find)


if __name__ == "__main__":
    unittest.main()
