source "$SOURCE/tests/cli/cases/lib.inc"; make_run
# what a step needs depends on the processor's kernels
"$RECKON" inspect run.yaml | sed -E -e 's/arena [0-9.]+ [KM]iB/arena SOME/' -e 's/^(peak memory of training:) [0-9.]+ MiB \(model and steps [0-9.]+ MiB, data [0-9.]+ MiB\)/\1 SOME/'
