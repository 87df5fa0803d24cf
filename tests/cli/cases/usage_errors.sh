"$RECKON" train; echo $?
"$RECKON" train a.yaml b.yaml; echo $?
"$RECKON" train --resum a.yaml; echo $?
"$RECKON" train --threads two a.yaml; echo $?
"$RECKON" train a.yaml --set; echo $?
"$RECKON" train --quiet=yes a.yaml; echo $?
"$RECKON" convert --from xml a b; echo $?
"$RECKON" completion ksh; echo $?
"$RECKON" train --resume --overwrite a.yaml; echo $?
