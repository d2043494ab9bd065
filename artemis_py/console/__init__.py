"""The pages of the console: files that `management.http.pages` serves."""
