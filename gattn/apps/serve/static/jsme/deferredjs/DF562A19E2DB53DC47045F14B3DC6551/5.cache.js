$wnd.jsme.runAsyncCallback5('x(735,623,tn);_.be=function(){this.a.F&&(Q2(this.a.F),this.a.F=null);0==this.a.r.w&&(this.a.F=new V2(2,this.a))};R(k_)(5);\n//@ sourceURL=5.js\n')
