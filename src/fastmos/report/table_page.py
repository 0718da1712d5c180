"""A table to look at: CSV, a page that can be searched, and the words around one word."""

import csv
import difflib
import html
import io

from fastmos.errors import InputError
from fastmos.files import csv_cell
from fastmos.tokenizers.table import TableTokenizer


def table_csv(tokenizer: TableTokenizer) -> str:
    """A line for each table word: row, column, word; by rows, then by columns."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)  # a word may hold a carriage return
    writer.writerow(["row", "column", "word"])
    for row in range(tokenizer.rows):
        writer.writerows(
            [row, column, csv_cell(word)] for column, word in enumerate(tokenizer.row_words(row)) if word is not None
        )
    return out.getvalue()


def nearest(tokenizer: TableTokenizer, word: str) -> tuple[list[str], list[str]]:
    """The other words of a table word's row, and those of its column."""
    if word not in tokenizer.table_words:
        if word in tokenizer.frequent:
            raise InputError(f"'{word}' is frequent and owns a token, so it shares no row; ask for a rarer word")
        near = difflib.get_close_matches(word, tokenizer.table_words, n=1)
        hint = f"did you mean '{near[0]}'?" if near else "see tokenizer show for some that are"
        raise InputError(f"'{word}' is not in this table; {hint}")
    row, column = divmod(int(tokenizer.cells[tokenizer.table_words.index(word)]), tokenizer.columns)
    in_row = [other for other in tokenizer.row_words(row) if other not in (None, word)]
    in_column = [tokenizer.row_words(other)[column] for other in range(tokenizer.rows) if other != row]
    return [other for other in in_row if other], [other for other in in_column if other]


def table_html(tokenizer: TableTokenizer, title: str) -> str:
    """One page with all rows, which needs nothing but itself; a search shows the rows that hold a word."""
    rows = []
    for row in range(tokenizer.rows):
        words = [
            f'<b title="column {column}">{html.escape(word)}</b>'
            for column, word in enumerate(tokenizer.row_words(row))
            if word is not None
        ]
        rows.append(f"<tr><th>{row}<td>{' '.join(words)}")
    return PAGE.format(
        title=html.escape(title),
        sizes=f"{len(tokenizer.table_words):,} words in {tokenizer.rows:,} rows and {tokenizer.columns:,} columns, "
        f"{len(tokenizer.frequent):,} frequent words beside them",
        rows="\n".join(rows),
    )


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }}
table {{ border-collapse: collapse; }}
tr {{ border-top: 1px solid #ccc; }}
th {{ padding-right: 1em; text-align: right; vertical-align: top; color: #777; font-weight: normal; }}
b {{ font-weight: normal; margin-right: .5em; }}
.found {{ background: #fe6; }}
input {{ font: inherit; padding: .3em; width: 20em; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd; }} .found {{ color: #000; }} }}
</style>
<h1>{title}</h1>
<p>{sizes}. A row's words share their first code; a word's column shows when the pointer rests on it.
<p><label>Rows with words that contain <input id="search" type="search" autofocus></label> <span id="count"></span>
<table>
{rows}
</table>
<script>
const rows = [...document.querySelectorAll("tr")].map(row => [row, [...row.querySelectorAll("b")]]);
document.getElementById("search").addEventListener("input", event => {{
  const wanted = event.target.value.toLowerCase();
  let count = 0;
  for (const [row, words] of rows) {{
    let found = 0;
    for (const word of words) {{
      const here = wanted !== "" && word.textContent.toLowerCase().includes(wanted);
      word.className = here ? "found" : "";
      found += here;
    }}
    row.hidden = wanted !== "" && !found;
    count += found;
  }}
  document.getElementById("count").textContent = wanted === "" ? "" : count + " found";
}});
</script>
</html>
"""
