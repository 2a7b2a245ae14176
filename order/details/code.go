package details

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/order/details/internal/detailsdb"
	"stampede/platform/base/ids"
)

// A pickup code is twelve digits of Crockford's base 32 in groups of four, which
// leaves out the letters that are misread: 60 random bits. Codes are entered by
// operators only, at a bounded rate: one that tries 10 a second for a year would
// find one of a million waiting orders with a chance of one in 3,000.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ")

// newCode returns a random code as it is shown.
func newCode() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	code := crockford.EncodeToString(random[:])
	return code[:4] + "-" + code[4:8] + "-" + code[8:12]
}

// misread are the letters that people read for digits.
var misread = strings.NewReplacer("O", "0", "I", "1", "L", "1", "-", "", " ", "")

// digest is what a code is found by, however it was typed.
func digest(code string) []byte {
	sum := sha256.Sum256([]byte(misread.Replace(strings.ToUpper(code))))
	return sum[:]
}

// OrderOf returns the order that a pickup code belongs to; false if there is none.
func OrderOf(ctx context.Context, db detailsdb.DBTX, code string) (ids.ID, bool, error) {
	no, err := detailsdb.New(db).OrderOfCode(ctx, digest(code))
	if errors.Is(err, pgx.ErrNoRows) {
		return ids.ID{}, false, nil
	}
	if err != nil {
		return ids.ID{}, false, fmt.Errorf("order: look for a pickup code: %w", err)
	}
	return no, true, nil
}
