"""A comparison that shows itself in a notebook: the sentence, the table, a picture, the notes."""

from html import escape

from specbench.analysis.comparison import Comparison
from specbench.report.comparison.answer import answer_of, table_of


class NotebookComparison(Comparison, frozen=True, kw_only=True):
    """A comparison with the display that a notebook asks for; the fields are the same."""

    def _repr_html_(self) -> str:
        answer = answer_of(self)
        table = table_of(answer)
        heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
            for row in table.rows
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in answer.notes)
        return (
            f"<p><strong>{escape(answer.sentence)}</strong></p>"
            f"<table><caption>{escape(table.caption)}</caption>"
            f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
            f"{self._picture(answer.sentence)}<ul>{notes}</ul>"
        )

    def _picture(self, sentence: str) -> str:
        """Draw the ratios; the text that stands for them is the sentence."""
        from specbench.report import plots, theme  # noqa: PLC0415 - slow to load

        with theme.using("light"):
            drawn = theme.svg(theme.figure_of(plots.comparison(self)))
        body = drawn[drawn.index("<svg") :]
        return body.replace("<svg", f'<svg role="img" aria-label="{escape(sentence)}"', 1)


def for_notebook(found: Comparison) -> NotebookComparison:
    """Give a comparison its display."""
    return NotebookComparison(**{name: getattr(found, name) for name in found.__struct_fields__})
