package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// auditCalls are where the audit log is written, each read for what it keeps: nothing erases
// that log, so it has no words of shoppers, and phones only masked. Read audit.Change's
// members and what they are made from before adding a line.
var auditCalls = []string{
	`inventory/compare "item.reconcile"`, `order "order.cancel"`, `order/desk "order.complete"`, `order/desk "order.note"`, `order/desk "order.ship"`,
	`order/coupon "coupon.create"`, `order/coupon "coupon.delete"`, `order/coupon "coupon.issue"`, `order/coupon "coupon.recall"`, `order/coupon "coupon.recall-one"`, `order/coupon action`,
	`order/dispute "dispute.answer"`, `order/dispute "dispute.close"`, `order/search "order.export"`, `order/stores "store.delete"`, `order/stores action`,
	`payment/refund "refund." + d.name`, `payment/refund "refund.request"`, `payment/statement "statement.apply"`,
	`platform/identity/account/staff "user.disable"`, `platform/identity/account/staff "user.enable"`, `platform/identity/account/staff "user.end-logins"`, `platform/identity/account/credential "user.erase"`,
	`platform/identity/account "user.first-admin"`, `platform/identity/account/factor "user.recovery-code"`, `platform/identity/account/staff "user.role"`, `platform/identity/account/staff "user.search"`,
	`platform/identity/account/factor action`, `platform/identity/blacklist "blacklist.add"`, `platform/identity/blacklist "blacklist.refuse"`, `platform/identity/blacklist "blacklist.remove"`,
	`platform/watch/alarm "alarm.acknowledge"`, `platform/watch/deadletters "dead-letter.redrive"`, `platform/watch/messages "message.redrive"`, `platform/watch/proof/runs "proof.start"`,
	`platform/workshop/cli "token.mint"`, `seckill/change name`, `seckill/change name`, `seckill/risk "risk-rule.remove"`, `seckill/risk action`,
}

// TestEveryAuditedViewWasRead: a shopper's words in the log stay after the account is erased.
func TestEveryAuditedViewWasRead(t *testing.T) {
	t.Parallel()
	var calls []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != "." {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 2 {
				if f := types.ExprString(call.Fun); f == "audit.Record" || f == "audit.Note" {
					calls = append(calls, path.Dir(filepath.ToSlash(name))+" "+types.ExprString(call.Args[2]))
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	slices.Sort(calls)
	want := slices.Sorted(slices.Values(auditCalls))
	require.Equal(t, "writers of the audit log", calls, want)
}
