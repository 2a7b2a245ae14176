package backups

import (
	"context"
	"net/http"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/backups/internal/backupsdb"
)

// shown is how many backups the list has.
const shown = 30

// BackupView is one backup, or an attempt at one.
type BackupView struct {
	ID      string `json:"id" example:"12"`
	BeganAt string `json:"began_at" format:"date-time"`
	EndedAt string `json:"ended_at,omitempty" format:"date-time" doc:"Absent while it is being made, or if its process ended"`
	Place   string `json:"place" example:"/backups" doc:"Where it was written"`
	Name    string `json:"name,omitempty" example:"2026-11-28T200000Z.stampede.age" doc:"Absent unless it is whole"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty" doc:"Why it failed"`
}

type backupsView struct {
	Place    string       `json:"place,omitempty" doc:"Where backups go now; absent where none are made"`
	At       string       `json:"at,omitempty" example:"04:00" doc:"When, in the shop's time zone"`
	Keep     int          `json:"keep,omitempty" doc:"How many stay there"`
	LastGood *BackupView  `json:"last_good,omitempty" doc:"Absent before the first"`
	Late     bool         `json:"late" doc:"No backup has been made for more than 30 hours, or none are made"`
	Backups  []BackupView `json:"backups" doc:"The latest, newest first, with those that failed"`
}

func view(r backupsdb.PlatformBackup) BackupView {
	v := BackupView{ID: httpx.FormatID(r.ID), BeganAt: httpx.Moment(r.BeganAt), Place: r.Place, Name: r.Name, Bytes: r.Bytes, Error: r.Error}
	if r.EndedAt != nil {
		v.EndedAt = httpx.Moment(*r.EndedAt)
	}
	return v
}

// Routes registers the operators' route.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/backups", ID: "list-backups", Tag: "operator", Role: auth.Viewer,
		Summary: "The last backups that the servers made by themselves",
	}, func(ctx context.Context, _ *struct{}) (*httpx.Output[backupsView], error) {
		good, ok, err := s.lastGood(ctx)
		if err != nil {
			return nil, httpx.Unreachable(fault.T("Backups", "备份"), err)
		}
		rows, err := backupsdb.New(s.DB).Latest(ctx, shown)
		if err != nil {
			return nil, httpx.Unreachable(fault.T("Backups", "备份"), err)
		}
		out := backupsView{Late: !ok || s.to == nil || s.now().Sub(good.BeganAt) > oldAfter, Backups: make([]BackupView, len(rows))}
		if s.to != nil {
			out.Place, out.At, out.Keep = s.to.String(), s.BackupAt, s.BackupKeep
		}
		if ok {
			out.LastGood = new(view(good))
		}
		for i, r := range rows {
			out.Backups[i] = view(r)
		}
		return httpx.Answer(out), nil
	})
}
