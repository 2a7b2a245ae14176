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

// ConfirmFresh asks on out, and reads from in, before the data in dir is deleted; no answer is no, and says how to give
// one without a terminal. It asks nothing when there is no data.
func ConfirmFresh(dir string, in io.Reader, out io.Writer) error {
	if has, err := hasData(dir); err != nil || !has {
		return err
	}
	_, _ = fmt.Fprintf(out, "Delete every sale, order and payment in %s and start over? [y/N] ", dir)
	answer, err := bufio.NewReader(io.LimitReader(in, 16)).ReadString('\n')
	switch a := strings.ToLower(strings.TrimSpace(answer)); {
	case a == "y" || a == "yes":
		return nil
	case err != nil: // the answer ended without its Enter: nobody is typing
		_, _ = fmt.Fprintln(out)
		return errors.New("nothing was deleted, because nobody answered; --yes answers yes, and without --fresh the data goes on")
	}
	return errors.New("nothing was deleted; start without --fresh to continue with the data")
}

// hasData says whether dir holds data of an earlier start, so that a command can ask before it starts over. A folder
// that does not exist holds none.
func hasData(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, markerName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, dataError(dir, err)
}
