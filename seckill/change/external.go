package change

import (
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/seckill/plan"
)

// taken makes an error of writing a row a flaw of its external id if another row has it.
func taken(err error, location string, id *string) error {
	for key, says := range map[string]fault.Text{
		"activities_external_id_key":           fault.T("Another activity has this external id.", "已有活动使用该外部编号。"),
		"sessions_activity_id_external_id_key": fault.T("Another session of the activity has this external id.", "该活动已有场次使用该外部编号。"),
		"items_session_id_external_id_key":     fault.T("Another item of the session has this external id.", "该场次已有商品使用该外部编号。"),
	} {
		if pg.ViolatesUnique(err, key) {
			var f plan.Flaws
			f.Add(false, location+".external_id", pg.ValueOr(id, ""), says)
			return fault.From(f.Err()).Because(err)
		}
	}
	return err
}
