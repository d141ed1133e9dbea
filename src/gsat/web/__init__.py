"""The JSON API and the page: trained runs, looked at in a browser or asked over HTTP.

``gsat explore`` shows the page, ``gsat serve`` the API alone. The modules need the extra ``web``.
"""
