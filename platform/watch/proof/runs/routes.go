package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/watch/proof"
	"stampede/platform/watch/proof/runs/internal/runsdb"
)

var (
	errNoRun = fault.Plain(fault.NotFound,
		fault.T("There is no proof with this id; GET /api/v1/admin/proof lists them.",
			"没有该编号的核验，列表见 GET /api/v1/admin/proof。"))
	errRunning = fault.New(fault.Conflict, "proof-running", fault.T("A proof is running", "账目核验正在进行"),
		fault.T("One proof of the books runs at a time; follow it with GET /api/v1/admin/proof, and start another "+
			"when it has ended.",
			"同一时间只能进行一次账目核验，进度见 GET /api/v1/admin/proof，完成后可再次发起。"),
		fault.T("Wait for the running proof and read its result.", "请等待正在进行的账目核验完成后查看结果。"))
)

// RunView is a run in a list. It is exported because huma requires that of embedded
// fields.
type RunView struct {
	ID          string `json:"id" example:"3"`
	Status      string `json:"status" enum:"running,proved,violated,failed" doc:"failed: a check could not run, or the process ended too often"`
	RequestedBy string `json:"requested_by" doc:"The operator's user id; 0: the server itself, after a sale"`
	StartedAt   string `json:"started_at" format:"date-time"`
	EndedAt     string `json:"ended_at,omitempty" format:"date-time" doc:"Absent while it runs"`
	ChecksDone  int    `json:"checks_done"`
	ChecksTotal int    `json:"checks_total"`
	Current     string `json:"current,omitempty" doc:"The check that runs now" example:"I1 never oversold"`
	SHA256      string `json:"sha256,omitempty" doc:"SHA-256 of the document, in hex" example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
}

// runDetail is a run with what it found.
type runDetail struct {
	RunView
	Outcomes []proof.Outcome `json:"outcomes" doc:"Each check with its violations; empty while it runs"`
	Document string          `json:"document,omitempty" doc:"The same as JSON text, in exactly the bytes that the hash is of" example:"{\"passed\":true}"`
	Note     string          `json:"note,omitempty" doc:"Why there are no outcomes"`
}

func view(r runsdb.PlatformProofRun) RunView {
	v := RunView{
		ID: httpx.FormatID(r.ID), Status: r.Status, RequestedBy: httpx.FormatID(r.RequestedBy), StartedAt: httpx.Moment(r.StartedAt),
		ChecksDone: int(r.ChecksDone), ChecksTotal: int(r.ChecksTotal), Current: r.Current, SHA256: r.Sha256,
	}
	if r.EndedAt != nil {
		v.EndedAt = httpx.Moment(*r.EndedAt)
		if r.Sha256 != "" {
			v.ChecksDone = v.ChecksTotal
		}
	}
	return v
}

// Routes registers the proof of the books.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/proof", ID: "start-proof", Tag: "operator", Role: auth.Operator, Status: http.StatusAccepted,
		Summary: "Prove the books: run the checks of stampede verify", Audit: "proof.start",
		NoKey:       "one runs at a time, and another one proves as much",
		Description: "The checks only read, and may run during a sale. Follow it with GET; the result is kept, with a hash over it.",
		Refuses:     []*fault.Error{errRunning},
	}, s.start)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/proof", ID: "list-proofs", Tag: "operator", Role: auth.Viewer,
		Summary: "Proofs of the books, newest first",
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/proof/{id}", ID: "get-proof", Tag: "operator", Role: auth.Viewer,
		Summary: "A proof's progress and result",
	}, s.get)
}

// start commits a run with its audit record.
func (s *Service) start(ctx context.Context, _ *struct{}) (*httpx.Output[RunView], error) {
	var run runsdb.PlatformProofRun
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		run, err = runsdb.New(tx).StartRun(ctx, runsdb.StartRunParams{RequestedBy: auth.From(ctx).UserID, ChecksTotal: int32(len(s.checks))}) //nolint:gosec // a few dozen
		if errors.Is(err, pgx.ErrNoRows) {
			return errRunning
		}
		if err != nil {
			return fmt.Errorf("proof: start a run: %w", err)
		}
		return audit.Record(ctx, tx, "proof.start", "proof "+httpx.FormatID(run.ID), audit.Change{After: view(run)})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	app.Kick(s.kick)
	return httpx.Answer(view(run)), nil
}

func (s *Service) list(ctx context.Context, in *struct{ httpx.ChangesInput }) (*httpx.PageOutput[RunView], error) {
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]runsdb.PlatformProofRun, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		rows, err := runsdb.New(s.pool).Runs(ctx, runsdb.RunsParams{Before: before, AtMost: int32(p.Ask())}) //nolint:gosec // a page
		return rows, unreachable(err)
	}, changed, view, func(r runsdb.PlatformProofRun) string { return httpx.FormatID(r.ID) })
}

// changed is when a run ended; one that has not makes progress all the time.
func changed(r runsdb.PlatformProofRun) time.Time {
	if r.EndedAt == nil {
		return time.Now()
	}
	return *r.EndedAt
}

type runInput struct {
	ID string `path:"id" doc:"The proof's id"`
}

func (s *Service) get(ctx context.Context, in *runInput) (*httpx.Output[runDetail], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	r, err := runsdb.New(s.pool).Run(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNoRun
	}
	if err != nil {
		return nil, unreachable(err)
	}
	d := runDetail{RunView: view(r), Document: r.Document, Outcomes: []proof.Outcome{}}
	if r.Document != "" {
		var found Document
		if err := json.Unmarshal([]byte(r.Document), &found); err != nil {
			return nil, fmt.Errorf("proof: decode run %d: %w", id, err)
		}
		d.Outcomes, d.Note = found.Outcomes, found.Note
	}
	return httpx.Answer(d), nil
}

// Latest returns the newest run that has ended, false if there is none.
func Latest(ctx context.Context, db runsdb.DBTX) (v RunView, ok bool, err error) {
	rows, err := runsdb.New(db).Runs(ctx, runsdb.RunsParams{AtMost: 2})
	if err != nil {
		return RunView{}, false, fmt.Errorf("proof: read runs: %w", err)
	}
	for _, r := range rows { // at most one of two still runs
		if r.Status != StatusRunning {
			return view(r), true, nil
		}
	}
	return RunView{}, false, nil
}

// unreachable is the answer to an operator whose query failed.
func unreachable(err error) error {
	return httpx.Unreachable(fault.T("Proofs of the books", "账目核验"), err)
}
