package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"stampede/migrations"
)

// released has the SHA-256 of each file of a release. A release adds its files; no line
// changes, because shops have the schema that these bytes created.
var released = map[string]string{
	// 0.9.0
	"00100_platform.sql":  "0ef32c1cb6bc3d15189eb4a79475f1c7e844d1d7fef4e86d62992a7dee03c7d0",
	"00200_account.sql":   "24743e04fe1a99a5e7df8aebd3356b6f5bc68772a07520811364a332d22bc87d",
	"00300_auth.sql":      "c579fd30c78681724e2c448fc5c8a8dafca04f555d6f184647e09f52d007172e",
	"00400_seckill.sql":   "a646678e06f139db2afc752aa21e4dc96a7a4f667a3d14af61788e8b69321315",
	"00500_inventory.sql": "d66a42c93ef99e7974c69e91030af5325be14afe5518f9e273792cc61103e8f2",
	"00600_orders.sql":    "4cd07222c89f1af81a2a23e2b7a91e8adce86115a26e3e83b4046639501f0a2e",
	"00700_payments.sql":  "9c75415779da004ec3d76703edbf34f3385614f3d9bf0164a19ecccdb1bf8078",
	"00800_sandbox.sql":   "2e9a9e3a86a37b5c4502f6de989cf3f847eeda1fd5658a46224ba9b0941275ed",
	"00900_risk.sql":      "23f604bcfc79419124a92b65412a13a20c0df0e1aa536b0e77b6661ddba02f93",
}

// contracts names the files that may contract at once, with the reason. The files below
// 01100 are all of 0.10.0: its upgrade asks for every instance of 0.9.0 to be stopped first.
var contracts = map[string]string{
	"01000_platform.sql": "0.10.0",
	"01010_account.sql":  "0.10.0",
	"01060_payments.sql": "0.10.0",
	"01070_sandbox.sql":  "0.10.0",
	"01080_risk.sql":     "0.10.0",
}

// contraction matches statements that break instances of the release before: something
// is gone, has another name or type, or must be given by writers that do not know it.
var contraction = regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|COLUMN|VIEW|FUNCTION|SCHEMA|DEFAULT|INDEX)|RENAME|SET\s+NOT\s+NULL|SET\s+DATA\s+TYPE|` +
	`ALTER\s+COLUMN\s+\w+\s+TYPE|TRUNCATE)\b`)

func TestReleasedFilesAreUnchanged(t *testing.T) {
	t.Parallel()
	for name, want := range released {
		raw, err := fs.ReadFile(migrations.FS, name)
		if sum := sha256.Sum256(raw); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the released file (%v): restore it and put the change into a new file", name, err)
		}
	}
}

func TestMigrationsOnlyExpand(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil || len(names) <= len(released) {
		t.Fatal(names, err)
	}
	constraint := regexp.MustCompile(`(?i)DROP\s+CONSTRAINT\s+(\w+)`)
	comment := regexp.MustCompile(`--.*`)
	required := regexp.MustCompile(`(?i)\bADD\s+COLUMN\b[^,;]*\bNOT\s+NULL\b[^,;]*`)
	for _, name := range names {
		raw, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		sql := comment.ReplaceAllString(string(raw), "")
		found := contraction.FindString(sql)
		for _, dropped := range constraint.FindAllStringSubmatch(sql, -1) {
			if !strings.Contains(sql, "ADD CONSTRAINT "+dropped[1]+" ") { // one that returns may be looser
				found = dropped[0]
			}
		}
		for _, column := range required.FindAllString(sql, -1) {
			if !strings.Contains(strings.ToUpper(column), "DEFAULT") && !strings.Contains(strings.ToUpper(column), "GENERATED") {
				found = column
			}
		}
		switch {
		case released[name] != "":
		case found != "" && contracts[name] == "":
			t.Errorf("%s has %q, which an instance of the release before does not survive: expand first, contract a release later", name, found)
		case found == "" && contracts[name] != "":
			t.Errorf("%s contracts nothing: take it off the list", name)
		}
	}
}
