package httpx

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency"
)

// API is where modules register their routes: the documented ones through
// Register, the few plain ones (the rush, callbacks, WebSocket) on Mux.
type API struct {
	Huma   huma.API
	Log    *slog.Logger
	with   *Options
	routes routes // the gate reads them too
	admit  func(ctx context.Context, authorization string) (_ context.Context, key *auth.Principal, refused error)
}

// Op describes one documented route.
type Op struct {
	Method, Path string // "POST", "/api/v1/items/{id}/rush-path"
	ID           string // operationId: verb and thing, kebab-case, unique; admin-… where shoppers have the same
	Summary      string
	Description  string
	Tag          string     // "shopper", "operator"
	Role         auth.Role  // who may call; empty is public
	Scope        auth.Scope // what API keys that may call it have; empty is none
	Status       int        // on success; 0 is 200
	Class        Class
	Load         Load
	// Away is the detail of the 503 "unavailable" when the handler could not reach a
	// store; empty is a general sentence.
	Away fault.Text
	// Refuses are the refusals a caller should be ready for, in addition to those that
	// follow from the other fields and are documented automatically.
	Refuses []*fault.Error
	// Files are the media types of an answer that is a file, and not JSON.
	Files []string
	// MaxBodyBytes bounds the request body; 0 is 64 KiB, ample for the API's JSON.
	MaxBodyBytes int64
	// Limits are checked together: a request refused by one counts towards none.
	Limits []Limit
	// Audit is what the operation is called in the audit log, or a pattern of several
	// actions; each change by the staff needs one. Nothing erases that log: what is
	// recorded has no words of shoppers, and phones only masked.
	Audit string
	// NoKey says of a POST that takes no Idempotency-Key why a repetition is harmless, or
	// why a key would not help.
	NoKey string
}

// Reasons of several operations for NoKey.
const (
	SetsState  = "it sets a state, and the repetition finds it set"
	ValidOnce  = "its input is valid once: a code, a scan token, the old password"
	NoLogin    = "without a login a key would be shared with strangers; a second login or code is harmless, and expires"
	KeepsItsID = "messages keep their ids, so that their effect happens once"
)

// mustBeComplete panics if an operation leaves out what only its author can say.
func (op *Op) mustBeComplete(input reflect.Type) {
	changes := op.Method != http.MethodGet && op.Role.May(auth.Operator)
	switch {
	case op.Class == Events && op.Scope != "":
		panic(op.ID + ": a stream ends with its token, and not with an API key: give it no scope")
	case changes && op.Audit == "":
		panic(op.ID + ": name in Audit what the change is in the audit log")
	case op.Method == http.MethodPost && takesKey(input) == (op.NoKey != ""):
		panic(op.ID + ": embed idempotency.Header in the input of a POST, or else say in NoKey why not")
	}
}

const defaultMaxBody = 64 << 10

// Register adds a documented route. The handler returns faults as errors; they
// become problem documents in the caller's language.
func Register[I, O any](api API, op Op, handler func(context.Context, *I) (*O, error)) {
	op.mustBeComplete(reflect.TypeFor[I]())
	op.Class = op.class()
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = defaultMaxBody
	}
	known := declared{class: op.Class, role: op.Role, scope: op.Scope, operator: op.Tag == operatorTag, maxBody: op.MaxBodyBytes, load: op.Load, limits: op.Limits}
	hop := huma.Operation{
		Method: op.Method, Path: op.Path, OperationID: op.ID, Summary: op.Summary, Description: op.Description,
		DefaultStatus: op.Status, MaxBodyBytes: op.MaxBodyBytes, Extensions: map[string]any{},
	}
	for name, said := range map[string]string{"x-audit": op.Audit, "x-no-idempotency-key": op.NoKey, "x-scope": string(op.Scope)} {
		if said != "" {
			hop.Extensions[name] = said
		}
	}
	if op.Tag != "" {
		hop.Tags = []string{op.Tag}
	}
	limited := len(op.Limits) > 0 && api.with.Limiter != nil
	hop.Responses = Refusals(api.Huma, refusals(op, reflect.TypeFor[I]()))
	if len(op.Files) > 0 {
		file := huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		ok := huma.Response{Content: map[string]*huma.MediaType{}}
		for _, kind := range op.Files {
			ok.Content[kind] = &file
		}
		hop.Responses[strconv.Itoa(http.StatusOK)] = &ok
	}
	if op.Role != "" {
		hop.Security = []map[string][]string{{BearerScheme: {}}}
		hop.Middlewares = huma.Middlewares{authorizeFirst(api, op)}
	}
	hop.Middlewares = append(hop.Middlewares, storableQuery)
	if limited {
		for _, l := range op.Limits {
			api.with.Limiter.Expect(l.Rule)
		}
		known.weigh = weigh(api.with.Limiter, op)
	}
	api.routes.add(op.Method, op.Path, known)
	keyed, sentence := takesKey(reflect.TypeFor[I]()), cmp.Or(op.Away, elsewhere)
	huma.Register(api.Huma, hop, func(ctx context.Context, in *I) (out *O, err error) {
		if limited {
			err = take(ctx, api.with.Limiter, op)
		}
		if err == nil && keyed {
			ctx = idempotency.Marking(ctx, fromContext(ctx).header)
		}
		if err == nil {
			out, err = handler(ctx, in)
		}
		if err != nil {
			logFault(ctx, api.Log, err, op.ID)
			return nil, problemIn(ctx, away(sentence, err))
		}
		return out, nil
	})
}

var errBarred = auth.ErrForbidden.Saying(
	fault.T("You may not use the staff's routes at the moment; contact the shop's admin.", "您暂时不能使用后台接口，请联系管理员。"))

// authorizeFirst refuses before the body is read: an unauthorized caller learns
// that, and not what is wrong with the request.
//
//nolint:contextcheck // huma.Context carries the request's context, which the linter cannot see
func authorizeFirst(api API, op Op) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		allowed := func(who context.Context) error {
			err := authorize(who, op.Role, op.Scope)
			if err == nil && op.Role != auth.Shopper && api.with.Barred != nil && api.with.Barred(auth.From(who)) {
				err = errBarred
			}
			return err
		}
		err := allowed(ctx.Context())
		if err == nil && op.Class == Held {
			by := ctx.Header("Authorization")
			ctx = huma.WithValue(ctx, againKey{}, func(ctx context.Context) error {
				ctx, key, refused := api.admit(auth.Into(ctx, auth.Principal{}), by)
				if key != nil && key.Has(op.Scope) {
					ctx = auth.Into(ctx, key.For(op.Scope))
				}
				return allowed(context.WithValue(ctx, requestKey{}, request{key: key, token: refused}))
			})
		}
		if err == nil {
			next(ctx)
			return
		}
		if api.with.Refused != nil && (errors.Is(err, auth.ErrForbidden) || errors.Is(err, auth.ErrScope)) {
			asked, who := ctx.URL(), ctx.Context()
			if key := fromContext(who).key; key != nil {
				who = auth.Into(who, *key)
			}
			api.with.Refused(who, op, asked.EscapedPath())
		}
		refuseEarly(ctx, err)
	}
}

type againKey struct{}

// StillAllowed returns the refusal of a request that would not be accepted any more: its
// login or key has ended, or may no longer do this. Handlers of Held operations that wait
// ask for it before they answer. It reads memory only.
func StillAllowed(ctx context.Context) error {
	if again, held := ctx.Value(againKey{}).(func(context.Context) error); held {
		return again(ctx)
	}
	return nil
}

var errQueryText = fault.Plain(fault.Invalid,
	fault.T("The query string has a text that cannot be stored: it must be UTF-8 without the character U+0000.",
		"查询参数含有无法保存的文字：须为 UTF-8，且不能含有字符 U+0000。"))

// storableQuery refuses a query string with a text that Postgres cannot store, so that
// no handler sends it one. Bodies are checked by readJSON.
func storableQuery(ctx huma.Context, next func(huma.Context)) {
	u := ctx.URL()
	if strings.IndexByte(u.RawQuery, '%') >= 0 || !utf8.ValidString(u.RawQuery) {
		for _, values := range u.Query() {
			for _, v := range values {
				if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
					refuseEarly(ctx, errQueryText)
					return
				}
			}
		}
	}
	next(ctx)
}

// refuseEarly answers in place of the handler.
//
//nolint:contextcheck // as above
func refuseEarly(ctx huma.Context, err error) {
	p := problemIn(ctx.Context(), err)
	for k := range p.header {
		ctx.SetHeader(k, p.header.Get(k))
	}
	ctx.SetHeader("Content-Type", ProblemContentType)
	ctx.SetStatus(p.Status)
	body, _ := p.MarshalJSON() // plain strings and an int cannot fail to encode
	_, _ = ctx.BodyWriter().Write(body)
}

// authorize returns nil when the principal in ctx may call what needs a role, or of API
// keys a scope, else the fault that gives the reason. A key that has the scope is the
// principal.
func authorize(ctx context.Context, role auth.Role, scope auth.Scope) error {
	p, req := auth.From(ctx), fromContext(ctx)
	switch {
	case p.UserID != 0 && (p.Has(scope) || p.Scopes == "" && p.Role.May(role)):
		return nil
	case req.key != nil && scope != "":
		return auth.ErrScope.Saying(fault.T("This route needs a key with the scope {scope}.", "该接口需要具有 {scope} 权限的密钥。", "scope", string(scope)))
	case req.key != nil:
		return auth.ErrScope
	case p.UserID != 0:
		return auth.ErrForbidden
	case req.token != nil:
		return req.token
	}
	return auth.ErrNoToken
}

// ParseID parses a decimal id from a path.
func ParseID(s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id <= 0 || strings.HasPrefix(s, "+") {
		return 0, fault.Plain(fault.NotFound, fault.T(`"{id}" is not an id.`, "“{id}”不是编号。", "id", s))
	}
	return id, nil
}

// QueryID is an id in a query, a decimal string as in documents; 0 where it was not given.
type QueryID struct{ N int64 }

// UnmarshalText leaves it to the schema to refuse what is no id, in its words.
func (id *QueryID) UnmarshalText(text []byte) error {
	id.N, _ = strconv.ParseInt(string(text), 10, 64) // the largest for a larger one, which no row has
	return nil
}

// Schema declares the string of digits.
func (QueryID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,18}$", PatternDescription: "a whole number above 0", Examples: []any{"12"}}
}
