// The look, for light and for dark surroundings; the blue and the orange are those of all pictures.

export const CSS = `
.hbx{--bar:#2f7fc8;--ink:#20262e;--muted:#66707c;--faint:#e7eaee;--line:#d5dae0;--surface:#fff;--ground:#f5f6f8;
--found:#d9622b;--found-soft:#fceee7;--set:#7a5bb5;--set-soft:#f0eaf9;--shade:0 1px 2px rgba(20,30,45,.08);--arc:#9aa3af;
container-type:inline-size;color:var(--ink);background:var(--ground);font:14px/1.4 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
display:flex;flex-direction:column;height:min(720px,88vh);min-height:420px;text-align:left;position:relative;border-radius:6px;overflow:hidden}
.hbx[data-theme=dark]{--bar:#5b9fe0;--ink:#e4e8ee;--muted:#98a2b0;--faint:#2c333d;--line:#3a434f;--surface:#1f252d;--ground:#161a20;
--found:#f08a58;--found-soft:#3b281e;--set:#b69ae6;--set-soft:#2d2640;--shade:none;--arc:#69737f;color-scheme:dark}
.hbx *{box-sizing:border-box}
.hbx [hidden]{display:none!important}
.hbx button,.hbx input,.hbx select{font:inherit;color:inherit;margin:0}
.hbx :focus-visible{outline:2px solid var(--bar);outline-offset:1px}
.hbx-toolbar{display:flex;flex-wrap:wrap;gap:6px 10px;align-items:center;padding:9px 14px;background:var(--surface);border-bottom:1px solid var(--line)}
.hbx-title-text{font-weight:650;font-size:15px;margin-right:4px;max-width:26ch;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.hbx-space{flex:1}
.hbx-group{display:inline-flex;align-items:stretch}
.hbx-button{background:var(--surface);border:1px solid var(--line);border-radius:6px;padding:3px 10px;cursor:pointer;line-height:1.45;white-space:nowrap}
.hbx-button:hover:not(:disabled){border-color:var(--bar)}
.hbx-button:disabled{opacity:.4;cursor:default}
.hbx-button[aria-disabled]{opacity:.5}
.hbx-button[aria-pressed=true]{background:color-mix(in srgb,var(--bar) 16%,var(--surface));border-color:var(--bar);font-weight:600}
.hbx-group>.hbx-button{border-radius:0;margin-left:-1px;position:relative}
.hbx-group>.hbx-button[aria-pressed=true],.hbx-group>.hbx-button:hover{z-index:1}
.hbx-group>:first-child{border-radius:6px 0 0 6px;margin-left:0}
.hbx-group>:last-child{border-radius:0 6px 6px 0}
.hbx-small{padding:0 8px;font-size:12px}
.hbx-primary{background:var(--bar);border-color:var(--bar);color:#fff;font-weight:600}
.hbx[data-theme=dark] .hbx-primary{color:#10151b}
.hbx-of{padding:0 8px;border-block:1px solid var(--line);display:flex;align-items:center;color:var(--muted);white-space:nowrap}
.hbx-field{background:var(--surface);border:1px solid var(--line);border-radius:6px;padding:3px 8px;min-width:0;line-height:1.45}
.hbx-field[aria-invalid]{border-color:var(--found)}
.hbx-search{width:150px}
.hbx-group>.hbx-row{width:62px;border-radius:0;margin-left:-1px;text-align:right}
.hbx-chips{display:flex;flex-wrap:wrap;gap:6px;align-items:center;padding:7px 14px;background:var(--surface);border-bottom:1px solid var(--line);min-height:42px;max-height:104px;overflow:auto;font-size:13px}
.hbx-chip{display:inline-flex;align-items:center;border-radius:99px;background:var(--found-soft);color:var(--ink);border:1px solid color-mix(in srgb,var(--found) 45%,transparent);max-width:100%}
.hbx-chip.hbx-set{background:var(--set-soft);border:1px dashed var(--set)}
.hbx-chip-text{background:none;border:0;padding:1px 2px 1px 11px;cursor:pointer;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;max-width:46ch}
.hbx-chip-cross{background:none;border:0;padding:1px 9px 1px 5px;cursor:pointer;opacity:.65;font-size:15px;line-height:1.3}
.hbx-chip-cross:hover{opacity:1}
.hbx-likelihood{margin-left:auto;font-variant-numeric:tabular-nums}
.hbx-muted,.hbx-hint{color:var(--muted)}
.hbx-hint{font-size:13px;margin:8px 0}
.hbx-notice{display:flex;gap:10px;align-items:center;padding:7px 14px;background:var(--faint);border-bottom:1px solid var(--line);font-size:13px}
.hbx-notice>span{flex:1}
.hbx-error{background:var(--found-soft)}
.hbx>*{flex:none}
.hbx>.hbx-main{flex:1}
.hbx-main{display:grid;grid-template-columns:minmax(0,1fr) 344px;min-height:0}
.hbx-stage{display:flex;flex-direction:column;min-height:0;min-width:0;position:relative}
.hbx-canvas{flex:1;overflow:auto;min-height:0;display:flex;position:relative}
.hbx-graph{margin:auto;display:block;flex:none;font-size:11px;user-select:none;-webkit-user-select:none}
.hbx-graph.hbx-stacked{margin:0 auto}
.hbx-graph.hbx-panning{cursor:grabbing}
.hbx-map{background:var(--surface);border-bottom:1px solid var(--line);padding:8px 10px;flex:none}
.hbx-map-picture{display:block;width:100%;height:clamp(90px,24vh,240px)}
.hbx-map-arcs{fill:none;stroke:var(--arc);stroke-width:1;vector-effect:non-scaling-stroke;opacity:.45}
.hbx-map-node{fill:var(--bar);stroke:var(--bar);stroke-width:1;vector-effect:non-scaling-stroke;cursor:pointer}
.hbx-map-node.hbx-shown{stroke-width:2}
.hbx-map-node.hbx-found{fill:var(--found);stroke:var(--found)}
.hbx-map-node.hbx-set{fill:var(--set);stroke:var(--set)}
.hbx-map-node.hbx-selected{stroke:var(--ink);stroke-width:2.5}
.hbx-status{display:flex;flex-wrap:wrap;gap:4px 14px;padding:5px 14px;border-top:1px solid var(--line);background:var(--surface);font-size:12px;color:var(--muted)}
.hbx-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.hbx-arc path{stroke:var(--arc);stroke-width:1.3}
.hbx-arc .hbx-head{fill:var(--arc);stroke:none}
.hbx-arc.hbx-near path{stroke:var(--bar);stroke-width:2}
.hbx-arc.hbx-near .hbx-head{fill:var(--bar);stroke:none}
.hbx-arc.hbx-cut{opacity:.35}
.hbx-arc.hbx-cut path:first-child{stroke-dasharray:3 4}
.hbx-frame{fill:var(--surface);stroke:var(--line);filter:drop-shadow(var(--shade,none))}
.hbx[data-theme=dark] .hbx-frame{filter:none}
.hbx-selected>.hbx-frame{stroke:var(--bar);stroke-width:2}
.hbx-found>.hbx-frame{stroke:var(--found);fill:color-mix(in srgb,var(--found-soft) 50%,var(--surface))}
.hbx-set>.hbx-frame{stroke:var(--set);stroke-dasharray:5 3;fill:color-mix(in srgb,var(--set-soft) 50%,var(--surface))}
.hbx-found.hbx-selected>.hbx-frame,.hbx-set.hbx-selected>.hbx-frame{stroke-width:2.4}
.hbx-graph text{fill:var(--ink);pointer-events:none}
.hbx-name{font-size:12px;font-weight:600}
.hbx-graph .hbx-badge{font-size:11px;fill:var(--muted);font-variant-numeric:tabular-nums}
.hbx-graph .hbx-found .hbx-badge{fill:color-mix(in srgb,var(--found) 78%,var(--ink));font-weight:600}
.hbx-graph .hbx-set .hbx-badge{fill:var(--set);font-weight:600}
.hbx-graph .hbx-percent{font-size:10.5px;font-variant-numeric:tabular-nums;fill:var(--muted)}
.hbx-hit{fill:transparent}
.hbx-title,.hbx-state,.hbx-cross{cursor:pointer}
.hbx-title:hover .hbx-hit,.hbx-state:hover>.hbx-hit{fill:color-mix(in srgb,var(--bar) 10%,transparent)}
.hbx-state.hbx-others{cursor:default}
.hbx-state:focus,.hbx-title:focus,.hbx-plot:focus{outline:none}
.hbx-state:focus-visible>.hbx-hit,.hbx-title:focus-visible>.hbx-hit,.hbx-plot:focus-visible .hbx-drag{stroke:var(--bar);stroke-width:2}
.hbx-cross path{stroke:var(--muted);stroke-width:1.6;stroke-linecap:round}
.hbx-cross:hover .hbx-hit{fill:var(--faint)}
.hbx-track{fill:var(--faint)}
.hbx-ghost{fill:var(--ink);opacity:.13}
.hbx-bar{fill:var(--bar)}
.hbx-tick{fill:var(--muted)}
.hbx-found .hbx-chosen .hbx-bar{fill:var(--found)}
.hbx-set .hbx-chosen .hbx-bar{fill:var(--set)}
.hbx-graph .hbx-chosen .hbx-label{font-weight:650}
.hbx-excluded .hbx-label{text-decoration:line-through;opacity:.6}
.hbx-excluded .hbx-percent{opacity:.5}
.hbx-best{fill:var(--found);stroke:var(--surface);stroke-width:.8}
.hbx-area{fill:var(--bar);opacity:.24}
.hbx-line{fill:none;stroke:var(--bar);stroke-width:1.7;stroke-linejoin:round}
.hbx-stale>.hbx-frame{stroke-dasharray:2 3}
.hbx-stem{fill:none;stroke:var(--bar)}
.hbx-ghost-stem{fill:none;stroke:var(--ink);opacity:.13}
.hbx-cap{fill:none;stroke:var(--muted);stroke-width:1.5}
.hbx-ghost-line{fill:none;stroke:var(--muted);stroke-width:1.1;stroke-dasharray:3 2.5}
.hbx-band{fill:var(--found);opacity:.16}
.hbx-rule{stroke:var(--found);stroke-width:2.2}
.hbx-rule.hbx-set{stroke:var(--set)}
.hbx-axis{stroke:var(--line)}
.hbx-ticks line{stroke:var(--line)}
.hbx-ticks text{font-size:9px;fill:var(--muted)!important;font-variant-numeric:tabular-nums}
.hbx-brush{fill:var(--found);opacity:.3;pointer-events:none}
.hbx-brush-text{font-size:10px;font-weight:600}
.hbx-drag{cursor:crosshair;touch-action:pan-y}
.hbx-panel{border-left:1px solid var(--line);background:var(--surface);display:flex;flex-direction:column;min-height:0;min-width:0}
.hbx-tabs{display:flex;border-bottom:1px solid var(--line);padding:0 6px;flex:none}
.hbx-tab{background:none;border:0;border-bottom:2px solid transparent;padding:9px 10px 7px;cursor:pointer;color:var(--muted)!important}
.hbx-tab[aria-selected=true]{color:var(--ink)!important;border-bottom-color:var(--bar);font-weight:600}
.hbx-panel-body{padding:14px 16px 20px;overflow:auto;flex:1;min-height:0;display:flex;flex-direction:column;gap:2px}
.hbx-tab-node>:nth-child(2){order:3}
.hbx-heading{font-size:16px;font-weight:650;margin:0 0 2px;overflow-wrap:anywhere;color:inherit;line-height:1.3}
.hbx-panel p{margin:2px 0}
.hbx-panel .hbx-hint{margin:8px 0}
.hbx-relatives{font-size:13px;color:var(--muted);overflow-wrap:anywhere}
.hbx-said{display:flex;gap:8px;align-items:center;justify-content:space-between;margin:8px 0!important;padding:6px 10px;border-radius:6px;background:var(--found-soft);overflow-wrap:anywhere}
.hbx-said.hbx-set{background:var(--set-soft)}
.hbx-link{background:none;border:0;padding:0;cursor:pointer;text-align:left;color:color-mix(in srgb,var(--bar) 82%,var(--ink))!important;overflow-wrap:anywhere}
.hbx-link:hover{text-decoration:underline}
.hbx-link[aria-pressed=true]{font-weight:700;color:color-mix(in srgb,var(--found) 78%,var(--ink))!important}
.hbx-table{border-collapse:collapse;width:100%;font-size:13px;margin:8px 0;color:inherit;background:none;border:0}
.hbx-table tr,.hbx-table td,.hbx-table th{background:none;border:0}
.hbx-table th{font-weight:500;color:var(--muted);text-align:left;padding:3px 6px 3px 0;font-size:12px;vertical-align:bottom}
.hbx-table td{padding:3px 6px 3px 0;vertical-align:middle;overflow-wrap:break-word;text-align:left}
.hbx-panel .hbx-table td:first-child{max-width:150px;min-width:94px}
.hbx-row-chosen .hbx-bar{fill:var(--found)}
.hbx-table tbody tr{border-top:1px solid var(--faint)}
.hbx .hbx-number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.hbx-table .hbx-total td{font-weight:650}
.hbx-table tr.hbx-muted td{color:var(--muted)}
.hbx-bar-cell{width:56px}
.hbx-mini{width:52px;height:12px;display:block}
.hbx .hbx-signs{text-align:center;padding-right:12px;white-space:nowrap}
.hbx-for{fill:var(--bar)}.hbx-against{fill:var(--found)}
.hbx-big-plot{width:100%;height:auto;display:block;margin-top:8px;user-select:none}
.hbx-big-plot text{fill:var(--ink)}
.hbx-form{display:flex;gap:6px;align-items:center;margin:6px 0}
.hbx-form .hbx-field{flex:1;width:0}
.hbx-form-title{width:58px;color:var(--muted);font-size:13px}
.hbx-details{margin-top:8px;font-size:13px}
.hbx-details summary{cursor:pointer;color:var(--muted)}
.hbx-slider{display:grid;grid-template-columns:96px 1fr;gap:8px;align-items:center;margin:3px 0}
.hbx-slider span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.hbx-slider input{accent-color:var(--bar);width:100%}
.hbx-choice{display:flex;align-items:center;gap:6px;margin-top:8px!important}
.hbx-buttons{display:flex;flex-wrap:wrap;gap:6px;margin:4px 0 8px!important}
.hbx-list{list-style:none;margin:4px 0 12px;padding:0}
.hbx-scenario{display:flex;gap:8px;align-items:center;padding:5px 0;border-top:1px solid var(--faint);margin:0}
.hbx-scenario .hbx-muted{margin-left:auto;font-size:12px;white-space:nowrap}
.hbx-comparison{flex:1;overflow:auto;padding:14px 18px;background:var(--surface)}
.hbx-comparison-head{display:flex;justify-content:space-between;align-items:center;gap:12px}
.hbx-comparison .hbx-table th{vertical-align:top;font-size:13px;padding-right:18px;max-width:220px;overflow-wrap:anywhere}
.hbx-comparison thead th{color:var(--ink)!important;font-weight:650}
.hbx-comparison thead .hbx-muted{font-weight:400;font-size:12px}
.hbx-comparison td{padding:5px 18px 5px 8px!important}
.hbx-comparison td.hbx-found{background:var(--found-soft)!important}.hbx-comparison td.hbx-set{background:var(--set-soft)!important}
.hbx-same{opacity:.55}
.hbx-compared{display:grid;grid-template-columns:minmax(40px,90px) 70px 56px;gap:8px;align-items:center}
.hbx-compared-label{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.hbx-figure{font-variant-numeric:tabular-nums;font-weight:600}
@media (prefers-reduced-motion:no-preference){.hbx-graph .hbx-bar,.hbx-graph .hbx-ghost{transition:width .16s ease-out}}
@container (max-width:820px){
.hbx-main{grid-template-columns:minmax(0,1fr);grid-template-rows:minmax(0,1fr) auto}
.hbx-panel{border-left:0;border-top:1px solid var(--line);height:min(38vh,340px)}
.hbx-map-picture{height:96px}
.hbx-toolbar{padding:7px 10px;gap:6px;font-size:13px}
.hbx-toolbar .hbx-button{padding-inline:8px}
.hbx-title-text{order:-3}.hbx-theme{order:-1}.hbx-history{order:-2;margin-left:auto}
.hbx-toolbar:after{content:"";flex-basis:100%;order:-1}
.hbx-chips{padding:6px 10px;flex-wrap:nowrap;overflow-x:auto;min-height:38px}
.hbx-chip-text{max-width:30ch}.hbx-chip,.hbx-likelihood{flex:none}
.hbx-space{display:none}
.hbx-search{width:130px}
.hbx-panel-body{padding:10px 14px 14px}
}
`;
