for c in train eval predict convert inspect completion manual; do "$RECKON" $c --help; echo; done
