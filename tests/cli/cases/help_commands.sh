for c in train eval predict convert inspect plan completion manual; do "$RECKON" $c --help; echo; done
