"""The pages that cupel makes, as a browser would read them, and what may be in one."""

import html.parser
import re

# What a page of ours consists of. Nothing else may be in it, whatever the run was.
TAGS = set("""html head meta title style body main section span h1 h2 h3 p table tr th td svg rect line text
    path figure figcaption article bdi code pre img div details summary footer a g desc ul li dl dt dd""".split())
ATTRIBUTES = set("""lang charset http-equiv content name class scope viewbox preserveaspectratio aria-hidden
    aria-label aria-labelledby role width height rx x y x1 x2 y1 y2 d text-anchor src alt href id
    colspan""".split())


class Page(html.parser.HTMLParser):
    """Tags, attributes and text, as a browser would see them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.policy, self.style, self.text = set(), [], "", "", ""
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.inside = tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "meta" and dict(attrs).get("http-equiv"):
            self.policy = dict(attrs)["content"]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_data(self, data):
        if self.inside == "style":
            self.style, self.inside = data, ""
        else:
            self.text += data


def check_structure(page):
    assert page.tags <= TAGS, page.tags - TAGS
    for tag, name, value in page.attributes:
        assert name in ATTRIBUTES, f"{tag} {name}={value[:80]}"
        if name == "href":
            assert re.match(r"#step-\d+$", value), value
        if name == "src":
            assert re.match(r"data:image/(png|jpeg|gif|svg\+xml);base64,[A-Za-z0-9+/]+=*$", value)
