package grafana

// Columns is how wide Grafana's grid is.
const Columns = 24

// Section is a row of the dashboard with a title, and what is below it.
type Section struct {
	Title  string
	Panels []*Panel
}

// Grid is the place of a panel, in cells.
type Grid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// arrange gives every panel an id and a place: from left to right, on the next
// shelf where one does not fit, each shelf as high as its highest panel.
func arrange(sections []Section) []*Panel {
	var all []*Panel
	y := 0
	for _, s := range sections {
		all = append(all, row(s.Title, y))
		y = shelve(s.Panels, y+1)
		all = append(all, s.Panels...)
	}
	for i, p := range all {
		p.ID = i + 1
	}
	return all
}

// shelve places panels from y on, and returns where the next section begins.
func shelve(panels []*Panel, y int) int {
	x, height := 0, 0
	for _, p := range panels {
		if x+p.Grid.W > Columns {
			x, y, height = 0, y+height, 0
		}
		p.Grid.X, p.Grid.Y = x, y
		x, height = x+p.Grid.W, max(height, p.Grid.H)
	}
	return y + height
}
