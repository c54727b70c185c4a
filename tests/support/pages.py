"""Pages for people, for tests that do what they say."""

import pathlib
import re


class Page:
    """Its code blocks, to be taken in the order in which they stand there."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.name = pathlib.Path(path).name
        # Language ("" for commands) and text without its indentation.
        self.left = [
            (language, re.sub(rf"(?m)^{indent}", "", block))
            for indent, language, block in re.findall(
                r"(?ms)^( *)```(\w*)\n(.*?)^ *```$", text)
        ]

    def take(self, contains, language=""):
        """The next block, which must be this language's and contain this text."""
        assert self.left, f"{self.name}: no block is left that has {contains!r}"
        kind, text = self.left.pop(0)
        assert kind == language and contains in text, (
            f"{self.name}: expected {contains!r} in a block {language!r}, found "
            f"{kind!r}:\n{text}")
        return text

    def end(self):
        assert not self.left, f"{self.name}: nobody did {self.left[0][1]}"


def lines(block):
    """(command, comment) of its lines; those that go on in the next one are one."""
    for line in block.replace("\\\n", " ").splitlines():
        command, _, comment = line.partition("  # ")
        if command.strip():
            yield command.strip(), comment.strip()
