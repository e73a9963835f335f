//! Parts for features that add sections to pages of the core, and for these pages.

pub use crate::panels::{
    OverviewScope, PanelFigure, PanelLink, PanelRow, PanelSection, PanelSlot, PanelTable, PanelVerdict,
    Panels, SearchedId, ShowPanel, VersionPageScope, VersionScope, collect_panels,
};
