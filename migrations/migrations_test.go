package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"stampede/migrations"
	"stampede/platform/workshop/require"
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
	// 0.10.0
	"01000_platform.sql":       "c691b2cc87c45dfde65d07c43c6714adcc4b737225b57adb0725d0d00e9e8d92",
	"01010_account.sql":        "50d902de89fc4a37503779b6bf5dc78148c157ce8ae03e8f56b6a2e3ada1a7fa",
	"01020_auth.sql":           "4afc9b46c33eec5ddb86800ab537d860223abf95c6462a4eaca58e9d8794a07d",
	"01030_seckill.sql":        "7c50a57f43994be3fb9a8ddca06552929c8e3730bb7ccb2dc40b441c8bfb6061",
	"01040_inventory.sql":      "ee10dc64b5b974abd7c08a4684ff4591605448c3e39f7d16ced20a9ba189b5e6",
	"01050_orders.sql":         "f9a159468cac59d1bdfcd9424691f3039fe6130bf2d8d9b249ba2f53a7c28b13",
	"01060_payments.sql":       "8c9fb811b0d4a0166108316b873088a484b237595b28bc0b1b6ef257d718d13b",
	"01070_sandbox.sql":        "0fa8fdecea8083b7806e06904a3f283c6398893d0b1f3f2bd1a60a76c5a16fc6",
	"01080_risk.sql":           "ec47bf6a79d36891e08bbcc02bc2615903cc2f90f81a121eb4ad4571ab3bd96d",
	"01110_payments.sql":       "74fb5b161c1037b3b55abcb13768fecd6f4b8a72e3bee29bf4a5393a16c7fa42",
	"01130_outbox_recalls.sql": "3d7e7206f58733925d00ae40b6de696f4f087cf19f92d8015384660a7c0cefb5",
	"01150_orders.sql":         "a7ed4a91a33616bb524aaa4ebdd254855afe81bd90a03f3e14e82641f64661ab",
	"01160_recovery_codes.sql": "aa3e254ac94c4a4b276457ead3fc6b89552175794a6ad0f5d076eedaf33930db",
	"01170_payments.sql":       "0b4ec27c6a4ad5eb85a583b17a3da38151bedbed701345a7cb9276d82cca826f",
}

// contracts names the files that may contract, with the reason: usually that the release
// before no longer uses what goes. Those of 0.10.0 did so at once, because its upgrade asks
// for every instance of 0.9.0 to be stopped first.
var contracts = map[string]string{
	"01277_shipping.sql":         "it drops only indexes of its own that a failed run left unusable",
	"01285_messages_by_mail.sql": "0.10.0 has no messages, so none of its instances uses the index",
	"01288_coupon_uses.sql":      "the new index answers all that instances of 0.10.0 ask of the one that goes",
	"01291_erased_users.sql":     "it drops only an index of its own that a failed run left unusable",
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
	if err != nil || len(names) < len(released) {
		t.Fatal(names, err)
	}
	constraint := regexp.MustCompile(`(?i)DROP\s+CONSTRAINT\s+(\w+)`)
	comment := regexp.MustCompile(`--.*`)
	required := regexp.MustCompile(`(?i)\bADD\s+COLUMN\b[^,;]*\bNOT\s+NULL\b[^,;]*`)
	for _, name := range names {
		raw, err := fs.ReadFile(migrations.FS, name)
		require.NoError(t, err)
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
