package httpx

import "github.com/danielgtaylor/huma/v2"

// Member declares an extension member of problem documents, which a fault carries
// With its name, so that a strict client knows it. Each module declares its own where
// it registers its routes; what two of them carry has both descriptions. No member is
// required: which one comes depends on the code.
func (api API) Member(name string, schema huma.Schema) {
	schemas := api.Huma.OpenAPI().Components.Schemas
	schemas.Schema(problemType, true, "Problem") // a document without routes has none yet
	properties := schemas.Map()["Problem"].Properties
	if before := properties[name]; before != nil {
		before.Description += "; " + schema.Description
		return
	}
	properties[name] = &schema
}
