"""What every reader of a setting raises."""


class SettingsInvalid(ValueError):
    """A setting has an invalid value; the text names the setting and says what it expects."""
