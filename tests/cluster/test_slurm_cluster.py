"""The clusters of the tests are what they claim to be."""
