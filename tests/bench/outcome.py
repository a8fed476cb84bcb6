# SPDX-License-Identifier: Apache-2.0
"""What an experiment came to: bars that it met or didn't, figures, and parts of a report."""
import svg


def percent(x):
    return f"{x * 100:.2f} %"


class Outcome:
    def __init__(self, heading):
        self.heading, self.parts, self.bars, self.figures = heading, [], [], {}

    def bar(self, what, value, met, text):
        self.bars.append({"what": what, "value": value, "met": bool(met), "bar": text})

    def html(self):
        rows = [[b["what"], f"{b['value']:.4g}", b["bar"], f'<span class="{"ok" if b["met"] else "bad"}">'
                 f'{"met" if b["met"] else "not met"}</span>'] for b in self.bars]
        return self.parts + [svg.table(["bar", "measured", "wanted", ""], rows)]
