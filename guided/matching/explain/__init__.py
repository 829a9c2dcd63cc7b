"""Why a text or a token is allowed or not, in the words of the specification."""
