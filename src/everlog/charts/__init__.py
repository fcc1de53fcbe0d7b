"""Renders statistics as a page with charts. Vega draws them as plain SVG, so the page needs no script and no network
and looks the same in a browser, in a notebook and on paper."""
