"""The JSON API (``gsat serve``) and the web app (``gsat explore``); needs the extra ``web``."""
