package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ConfirmFresh asks for confirmation on out, and reads it from in, before the
// data in dir is deleted. No answer means no; the error then says how to answer
// without a terminal. It does not ask if there is no data.
func ConfirmFresh(dir string, in io.Reader, out io.Writer) error {
	if has, err := hasData(dir); err != nil || !has {
		return err
	}
	_, _ = fmt.Fprintf(out, "Delete every sale, order and payment in %s and start over? [y/N] ", dir)
	answer, err := bufio.NewReader(io.LimitReader(in, 16)).ReadString('\n')
	switch a := strings.ToLower(strings.TrimSpace(answer)); {
	case a == "y" || a == "yes":
		return nil
	case err != nil: // the input ended without a newline: there is no terminal
		_, _ = fmt.Fprintln(out)
		return errors.New("nothing was deleted, because there was no answer; --yes answers yes, and without --fresh the start continues with the data")
	}
	return errors.New("nothing was deleted; start without --fresh to continue with the data")
}

// hasData reports whether dir contains data of an earlier start, so that a
// command can ask before it starts over. A folder that does not exist contains
// none.
func hasData(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, dataError(dir, err)
}
