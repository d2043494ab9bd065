"""The web console: static files that show the HTTP API of a broker in a browser.

The modules of JavaScript ask the API under `/api/v1` of the server that they come from, and nothing else. They are
served as they are: no step builds them, and no library is among them.
"""
