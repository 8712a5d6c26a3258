"""What could be faster of what a branch changed, as comments on its lines: for GitHub's and GitLab's interfaces."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autotune_rewrite.project import git
from autotune_rewrite.report.markdown import escaped
from autotune_rewrite.report.review import as_markdown, fenced, gain, needed_rules, part_of_measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from autotune_rewrite.project.git import ShownLine
    from autotune_rewrite.report.changes import Change
    from autotune_rewrite.report.review import Review

_GITLAB_FARTHEST = 100
"""Lines above the commented one that a suggestion of GitLab's may take the place of."""


@dataclass(frozen=True, slots=True)
class Comment:
    """What is said of lines that the diff of the pull request shows."""

    change: Change
    line: int
    end_line: int
    before: int | None
    """The number of the last of them before the change; None of a line that was added."""
    suggestion: str | None
    """What is to stand in their place; None where that takes more than these lines."""


def as_github(review: Review) -> str:
    """The body of a request that creates a review, with a comment for each change on lines that the diff shows.

    Where nothing is found, it says nothing: GitHub would refuse it.
    """
    comments, elsewhere = _sorted_out(review)
    return json.dumps(
        {
            "commit_id": review.commits.head,
            "event": "COMMENT",
            "body": "" if review.is_empty else as_markdown(elsewhere),
            "comments": [_of_github(each, review) for each in comments],
        },
        indent=2,
    )


def as_gitlab(review: Review) -> str:
    """The bodies of requests that create threads: one for the whole, then one for each change on lines of the diff.

    Where nothing is found, there are none.
    """
    comments, elsewhere = _sorted_out(review, farthest=_GITLAB_FARTHEST)
    commits = review.commits
    position = {"base_sha": commits.base, "start_sha": commits.revision, "head_sha": commits.head}
    threads: list[dict[str, Any]] = [] if review.is_empty else [{"body": as_markdown(elsewhere)}]
    threads += (
        {"body": _body(each, review, gitlab=True), "position": _of_gitlab(each, review, position)} for each in comments
    )
    return json.dumps(threads, indent=2)


def _of_github(comment: Comment, review: Review) -> dict[str, Any]:
    lines: dict[str, Any] = {"line": comment.end_line, "side": "RIGHT"}
    if comment.line < comment.end_line:
        lines = {"start_line": comment.line, "start_side": "RIGHT", **lines}
    return {"path": git.path_in_repository(comment.change.path), **lines, "body": _body(comment, review, gitlab=False)}


def _of_gitlab(comment: Comment, review: Review, commits: Mapping[str, str]) -> dict[str, Any]:
    path = comment.change.path
    # A line that stayed is known by both of its numbers.
    old = {} if comment.before is None else {"old_line": comment.before}
    return {
        **commits,
        "position_type": "text",
        "old_path": git.path_before(path, review.revision),
        "new_path": git.path_in_repository(path),
        "new_line": comment.end_line,
        **old,
    }


def _body(comment: Comment, review: Review, *, gitlab: bool) -> str:
    change = comment.change
    blocks = []
    for rule in change.rules:
        own = [each for each in change.sites if each.rule == rule]
        messages = dict.fromkeys(change.rewrite.message(each) for each in own)
        promise = max(each.promise for each in own)
        said = [f"Gain to expect: {gain(own)}", part_of_measured(rule, review.judgement)]
        blocks.append(
            f"**`{rule}`** ({promise}): {escaped('; '.join(messages))}. {escaped('; '.join(filter(None, said)))}."
        )
    needed = needed_rules(change, review.changes)
    if needed:
        blocks.append(f"Only with {needed}.")
    if comment.suggestion is not None:
        reach = f":-{comment.end_line - comment.line}+0" if gitlab else ""
        blocks.append(fenced(f"suggestion{reach}", comment.suggestion))
    else:
        blocks.append("The whole change:")
        blocks.append(fenced("diff", "\n".join(line.rstrip("\r") for line in change.diff)))
    return "\n\n".join(blocks)


def _sorted_out(review: Review, farthest: int | None = None) -> tuple[list[Comment], Review]:
    """The comments, and what is to be said elsewhere."""
    shown = {
        each.path: git.shown_lines(each.path, review.revision) for each in review.rewrites if each.units is not None
    }
    comments = []
    for change in review.changes:
        comment = _comment(change, shown[change.path], farthest) if change.path in shown else None
        if comment is not None:
            comments.append(comment)
    told = {each.change.number for each in comments}
    return comments, dataclasses.replace(review, told=frozenset(told))


def _comment(change: Change, shown: Mapping[int, ShownLine] | None, farthest: int | None) -> Comment | None:
    """What is said of the lines of a change, or of its first site; None where the diff shows neither."""
    pieces = change.replacements
    # What may be taken over by itself has to be right by itself; how it takes returns before newlines is not known.
    if len(pieces) == 1 and not change.needs and "\r" not in pieces[0].text:
        (piece,) = pieces
        lines = range(piece.line, piece.end_line + 1)
        if _are_shown(lines, shown) and (farthest is None or len(lines) <= farthest):
            return Comment(change, piece.line, piece.end_line, _before(piece.end_line, shown), piece.content)
    for line in _lines(change):
        if _are_shown(range(line, line + 1), shown):
            return Comment(change, line, line, _before(line, shown), None)
    return None


def _lines(change: Change) -> Iterator[int]:
    """Where a comment would stand best."""
    yield from (each.line for each in change.sites)
    yield from (line for each in change.replacements for line in range(each.line, each.end_line + 1))


def _are_shown(lines: Sequence[int], shown: Mapping[int, ShownLine] | None) -> bool:
    """Whether the diff shows lines, together in one hunk; of a new file it shows all."""
    return shown is None or (all(each in shown for each in lines) and len({shown[each].hunk for each in lines}) == 1)


def _before(line: int, shown: Mapping[int, ShownLine] | None) -> int | None:
    return None if shown is None else shown[line].before
