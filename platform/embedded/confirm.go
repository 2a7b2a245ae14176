package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ConfirmFresh asks on out, and reads from in, before the data in dir is deleted; no answer is no. It asks nothing when
// there is no data.
func ConfirmFresh(dir string, in io.Reader, out io.Writer) error {
	if has, err := hasData(dir); err != nil || !has {
		return err
	}
	_, _ = fmt.Fprintf(out, "Delete every sale, order and payment in %s and start over? [y/N] ", dir)
	answer, _ := bufio.NewReader(io.LimitReader(in, 16)).ReadString('\n') // no answer is no
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was deleted; start without --fresh to continue with the data")
	}
	return nil
}
