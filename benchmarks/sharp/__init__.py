"""Tables whose columns hang together by edges rather than slopes, to choose settings by; none is on the peers' page."""
