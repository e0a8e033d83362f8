"""From a text to its tokens: normalisation, words, shingles."""
