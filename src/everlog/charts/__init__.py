"""Statistics as a page with pictures: plain SVG that Vega draws here, so that the page needs no script and no network,
and looks the same in a browser, in a notebook and on paper."""
