"""The explorer: a page on which findings are set and beliefs follow, in notebooks, from a local server, or as a file.

One ECMAScript module, ``explorer.js``, draws it everywhere. It is built from ``source/`` by esbuild (``npm ci`` and
``npm run build`` in that folder), and exports `render({model, el})`, the contract of anywidget. It asks questions and
gets answers, both as JSON; see `hybridbn.explorer.responder`.

Doors: `page`, `responder`.
"""
