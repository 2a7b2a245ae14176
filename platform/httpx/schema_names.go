package httpx

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaNames are the names in the document of what is named in the code for the
// package that it stands in: a generated client has all of them in one package.
var schemaNames = map[string]string{
	"AcknowledgeInputBody": "AlarmAcknowledgement",
	"AddInputBody":         "BlacklistAddition",
	"AdminDocument":        "AdminOrder",
	"AdminOrderOutputBody": "AdminOrderDetail",
	"AdminUserOutputBody":  "UserDetail",
	"Admission":            "AdmissionRate",
	"Agreement":            "OversellAgreement",
	"AskInputBody":         "QRLoginRequest",
	"AskOutputBody":        "QRLogin",
	"AuditView":            "AuditEntry",
	"BindInputBody":        "PhoneBinding",
	"ChangeInputBody":      "PasswordChange",
	"Cloning":              "ActivityCloning",
	"CodeInputBody":        "SMSCodeRequest",
	"CodeOutputBody":       "SMSCodeSent",
	"DecideInputBody":      "QRLoginDecision",
	"DecisionView":         "RiskDecision",
	"DeviceInput":          "Device",
	"DeviceStruct":         "AskingDevice",
	"DisableInputBody":     "UserDisabling",
	"Document":             "Order",
	"EntryView":            "BlacklistEntry",
	"EraseInputBody":       "AccountErasure",
	"HitView":              "RiskHit",
	"LetterOutputBody":     "DeadLetterDetail",
	"LetterView":           "DeadLetter",
	"LinkInputBody":        "WeChatLinking",
	"LoginInputBody":       "PasswordLogin",
	"LoginSMSInputBody":    "SMSLogin",
	"LoginWeChatInputBody": "WeChatLogin",
	"LoginsOutputBody":     "Logins",
	"MoreStock":            "StockAddition",
	"PathGrant":            "RushPath",
	"PathOrder":            "RushPathRequest",
	"PayDocument":          "StartedPayment",
	"Picture":              "SlidePicture",
	"PollOutputBody":       "QRLoginState",
	"RedriveAllInputBody":  "RedriveRequest",
	"RedriveOutputBody":    "RedriveResult",
	"RefreshInputBody":     "TokenRefresh",
	"RegisterInputBody":    "Registration",
	"Repeated":             "RepeatedSessions",
	"Repetition":           "SessionRepetition",
	"ReservationView":      "ItemReservation",
	"ResetInputBody":       "PasswordReset",
	"RoleInputBody":        "RoleChange",
	"RuleInput":            "RiskRuleDraft",
	"RuleView":             "RiskRule",
	"ScanOutputBody":       "QRLoginScan",
	"StartInputBody":       "PaymentRequest",
	"TryRuleOutputBody":    "RiskDryRun",
	"Widget":               "VerifierWidget",
}

// schemaName is a type's name in the document: without the ending that only tells
// it from a row of a table, and a page by what is on it. huma refuses two types of
// one name at the start.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if row, page := strings.CutPrefix(name, "Page"); page {
		return documented(row) + "Page"
	}
	return documented(name)
}

func documented(name string) string {
	if given, ok := schemaNames[name]; ok {
		return given
	}
	return strings.TrimSuffix(name, "View")
}
