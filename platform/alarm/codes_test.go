package alarm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stampede/platform/alarm"
)

// provoked names, for each code, the test that brings its condition about with
// real parts and finds the alarm.
var provoked = map[alarm.Code]string{
	alarm.BooksBroken:        "inventory/sample_test.go TestSamplesFindBrokenBooks",
	alarm.BooksDiffer:        "inventory/load_test.go TestBooksThatDifferRaiseAnAlarm",
	alarm.StockShortfall:     "order/writer_test.go TestWriterSharesOutTooFewUnits",
	alarm.GrantsWithoutStock: "order/writer_test.go TestWriterEndsNumbersOfAnUnknownItem",
	alarm.HoldStuck:          "seckill/rush/sweeper_test.go TestSweeperRaisesAnAlarmForWhatStaysLost",

	alarm.WriterStuck:    "order/alarms_test.go TestWriterThatIsStuckAsksForAPerson",
	alarm.DeadLetter:     "platform/inbox/inbox_test.go TestFailingHandlerLeavesDeadLetterAndAlarm",
	alarm.ReleaseFailing: "inventory/ended_alarm_test.go TestReleaseThatKeepsFailingAsksForAPerson",
	alarm.OutboxRefused:  "platform/outbox/relay_test.go TestRefusedRowHoldsUpNobody",
	alarm.OutboxBehind:   "platform/outbox/behind_test.go TestOutboxThatIsBehindIsAnAlarm",

	alarm.ItemFenced:          "seckill/rush/fenced_probe_test.go TestItemOnSaleWithoutStateIsAnAlarm",
	alarm.PreheatFailed:       "seckill/preheat_alarm_test.go TestLoadThatFailsAgainAndAgainIsAnAlarm",
	alarm.RedisUnreachable:    "platform/alarm/watch_test.go TestRedisThatIsAwayIsAnAlarm",
	alarm.PostgresUnreachable: "platform/alarm/late_test.go TestPostgresThatWasAwayIsAnAlarmAfterwards",
	alarm.BusUnhealthy:        "platform/alarm/watch_test.go TestBusThatIsUnwellIsAnAlarm",
	alarm.GrantsFull:          "platform/alarm/watch_test.go TestFullStreamOfGrantsIsAnAlarm",
	alarm.DatabaseWentBack:    "platform/lineage/lineage_test.go TestADatabaseThatGoesBackUnderAServerIsAnAlarm",
	alarm.DiskNearlyFull:      "platform/alarm/watch_test.go TestDiskWithoutRoomIsAnAlarm",
	alarm.WebhookFailing:      "platform/alarm/notifier_test.go TestReceiverThatDoesNotAnswerIsAnAlarm",

	alarm.PaymentMismatch:          "payment/callback_test.go misbehavingBank",
	alarm.PaymentUnknown:           "payment/callback_test.go moneyThatIsNotOurs",
	alarm.PaymentForeignMerchant:   "payment/callback_test.go moneyThatIsNotOurs",
	alarm.PaymentTransactionReused: "payment/callback_test.go moneyThatIsNotOurs",
	alarm.PaymentProviderMissing:   "payment/refund_test.go providerNoLongerConfigured",
	alarm.PaymentProviderFailing:   "payment/alarms_test.go TestProviderThatKeepsFailingAsksForAPerson",
	alarm.PaymentLate:              "payment/refund_test.go lateMoneyGoesBack",
	alarm.RefundFailed:             "payment/refund_test.go aRefundThatFails",
	alarm.RefundStuck:              "payment/refund_test.go aRefundOutlivesTheBanksAbsence",
}

// root leads to the module's folder.
const root = "../.."

// Every code has a test that provokes it, code that raises it, and words for the
// person who is called.
func TestEveryCodeIsRaisedAndProvoked(t *testing.T) {
	t.Parallel()
	names := constants(t)
	raisers := mentionsInSources(t)
	defined := map[alarm.Code]bool{}
	for _, d := range alarm.Definitions() {
		if defined[d.Code] {
			t.Errorf("%s is defined twice", d.Code)
		}
		defined[d.Code] = true
		if d.Severity != alarm.Warning && d.Severity != alarm.Critical || !strings.HasSuffix(d.Meaning, ".") || !strings.HasSuffix(d.Action, ".") {
			t.Errorf("%s is not explained: %+v", d.Code, d)
		}
	}
	for code, name := range names {
		switch {
		case !defined[code]:
			t.Errorf("alarm.%s has no definition", name)
		case !raisers[name]:
			t.Errorf("nobody raises alarm.%s", name)
		}
		file, test, found := strings.Cut(provoked[code], " ")
		if !found {
			t.Errorf("no test provokes alarm.%s", name)
		} else if !provokes(t, filepath.Join(root, file), test, name, code) {
			t.Errorf("%s does not have a test %s that names alarm.%s", file, test, name)
		}
	}
	if len(names) != len(defined) || len(names) != len(provoked) {
		t.Errorf("%d constants, %d definitions, %d provoked", len(names), len(defined), len(provoked))
	}
}

// constants reads the names of the list's constants.
func constants(t *testing.T) map[alarm.Code]string {
	t.Helper()
	names := map[alarm.Code]string{}
	for _, decl := range parse(t, "codes.go").Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if typ, ok := value.Type.(*ast.Ident); ok && typ.Name == "Code" {
				code, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				names[alarm.Code(code)] = value.Names[0].Name
			}
		}
	}
	return names
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// provokes reports whether the function is in the file and names the code.
func provokes(t *testing.T, path, test, name string, code alarm.Code) bool {
	t.Helper()
	var body *ast.FuncDecl
	for _, decl := range parse(t, path).Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == test {
			body = fn
		}
	}
	if body == nil {
		return false
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == name
		case *ast.BasicLit:
			found = found || n.Value == strconv.Quote(string(code))
		}
		return !found
	})
	return found
}

// mentionsInSources collects which constants the program uses, tests and the
// list itself apart.
func mentionsInSources(t *testing.T) map[string]bool {
	t.Helper()
	mentioned := map[string]bool{}
	for _, module := range []string{"inventory", "order", "payment", "seckill", "notify", "platform"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "codes.go" {
				return err
			}
			own := filepath.Base(filepath.Dir(path)) == "alarm"
			raw, err := os.ReadFile(path)
			if err != nil || !own && !strings.Contains(string(raw), `"stampede/platform/alarm"`) {
				return err
			}
			ast.Inspect(parse(t, path), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "alarm" {
						mentioned[n.Sel.Name] = true
					}
				case *ast.Ident:
					if own {
						mentioned[n.Name] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return mentioned
}
